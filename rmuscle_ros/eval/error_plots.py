"""Figures of action errors: each call's, and latency against error. Inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rmuscle_ros.eval import svg
from rmuscle_ros.eval.comparison import point
from rmuscle_ros.eval.comparison_plots import DASHED, WIDE_PX, Modes, colour, rows
from rmuscle_ros.eval.labels import Label, Line, place
from rmuscle_ros.eval.modes import DEFAULT

# Errors below this are drawn at it: the axes are logarithmic, and dense answers have error 0.
FLOOR = 1e-4
MAX_DOTS = 400


def errors(samples: Mapping[str, Sequence[float]], modes: Modes, spread: float | None) -> str:
    """One dot per call, with mean and 99th percentile marked.

    samples: mode -> its calls' action errors. spread: the median distance of dense answers with
    different noise.
    """
    names = [name for name in modes if samples.get(name)]
    values = [value for name in names for value in samples[name]]
    with svg.style():
        figure, (axes,) = rows(names, 1060)
        floor = logarithmic(axes, 'x', [*values, spread])
        for row, name in enumerate(names):
            _strip(axes, row, name, np.maximum(samples[name], floor))
            _ticks(axes, row, modes[name]['action_error'], floor)
        if spread is not None:
            axes.axvline(spread, color=svg.INK, linewidth=1, linestyle=DASHED)
        axes.set_xlabel('action error of a call, normalised units')
        return svg.to_svg(figure, 'Action error of every call, per mode', WIDE_PX)


def _strip(axes: Axes, row: int, name: str, values: np.ndarray) -> None:
    """Dots thinned by rank, so that the extremes stay."""
    ordered = np.sort(values)
    keep = np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_DOTS)).round().astype(int)
    jitter = np.random.default_rng(0).uniform(-0.27, 0.27, len(keep))
    axes.scatter(ordered[keep], row + jitter, s=11, color=colour(name), alpha=0.45, linewidths=0)


def _ticks(axes: Axes, row: int, error: Mapping[str, Any], floor: float) -> None:
    for key, half, width in (('mean', 0.36, 2.6), ('p99', 0.22, 1.4)):
        if error[key] is not None:
            x = max(error[key], floor)
            axes.plot([x, x], [row - half, row + half], color=svg.INK, linewidth=width)


def frontier(modes: Modes, spread: float | None) -> str:
    """Mean latency against mean action error; a line joins the modes that none dominates.

    A thin line rises to each mode's 99th percentile; spread as in ``errors``, dashed.
    """
    points = {name: at for name, mode in modes.items() if (at := point(mode)) is not None}
    tails = {name: (modes[name]['action_error'] or {}).get('p99') for name in points}
    with svg.style():
        figure = svg.new_figure(1060, 420)
        axes = figure.add_subplot()
        heights = [error for _, error in points.values()]
        floor = logarithmic(axes, 'y', [*heights, *tails.values(), spread])
        drawn = {name: (ms, max(error, floor)) for name, (ms, error) in points.items()}
        axes.set_xlim(0, 1.1 * max((ms for ms, _ in drawn.values()), default=1.0))
        lines = staircase([drawn[name] for name in drawn if not modes[name]['dominated_by']])
        for start, end in lines:
            axes.plot(*zip(start, end, strict=True), color=svg.MUTED, linewidth=1.3, zorder=1)
        for name, (ms, error) in drawn.items():
            tail = max(tails[name] or error, floor)
            axes.plot([ms, ms], [error, tail], color=colour(name), linewidth=1.2, alpha=0.6)
            lines.append(((ms, error), (ms, tail)))
            _mark(axes, name, ms, error)
        if spread is not None:
            axes.axhline(spread, color=svg.INK, linewidth=1, linestyle=DASHED, zorder=0)
            lines.append(((axes.get_xlim()[0], spread), (axes.get_xlim()[1], spread)))
        axes.grid()
        axes.set_xlabel('mean time of one call, ms')
        axes.set_ylabel('mean action error, normalised units')
        place(figure, axes, [Label(n, *at, bold=n == DEFAULT) for n, at in drawn.items()], lines)
        return svg.to_svg(figure, 'Mean latency against mean action error, per mode', WIDE_PX)


def staircase(points: Sequence[tuple[float, float]]) -> list[Line]:
    """Steps from point to point: right at the error of the faster one, then down."""
    lines: list[Line] = []
    ordered = sorted(points)
    for (ms, error), (next_ms, next_error) in pairwise(ordered):
        lines.append(((ms, error), (next_ms, error)))
        lines.append(((next_ms, error), (next_ms, next_error)))
    return lines


def _mark(axes: Axes, name: str, ms: float, error: float) -> None:
    default = name == DEFAULT
    axes.plot(
        ms,
        error,
        'o',
        color=colour(name),
        markersize=12 if default else 8,
        markeredgecolor=svg.INK if default else colour(name),
        markeredgewidth=1.6,
        clip_on=False,
        zorder=3,
    )


def logarithmic(axes: Axes, which: str, values: Sequence[float | None]) -> float:
    """A logarithmic axis ``which`` ('x' or 'y') for errors; returns where errors of 0 stand.

    That is a decade below the others, or ``FLOOR``.
    """
    positive = [value for value in values if value]
    low, high = min(positive, default=0.01), max(positive, default=1.0)
    floor = max(FLOOR, 10.0 ** np.floor(np.log10(0.7 * low)))
    high = max(high, 10 * floor)
    decades = floor * 10.0 ** np.arange(np.ceil(np.log10(high / floor)) + 1)
    axis = axes.xaxis if which == 'x' else axes.yaxis
    axes.set(**{f'{which}scale': 'log', f'{which}lim': (floor / 1.3, 1.5 * high)})
    axis.set_major_locator(FixedLocator([d for d in decades if d <= 1.5 * high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: ('≤ ' if value < 2 * floor else '') + f'{value:g}')
    )
    return float(floor)
