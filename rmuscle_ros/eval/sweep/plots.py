"""Figures of a sweep: latency or work against error, a panel per factor. Inline SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from rmuscle_ros.eval import svg
from rmuscle_ros.eval.comparison import point
from rmuscle_ros.eval.comparison_plots import DASHED, WIDE_PX
from rmuscle_ros.eval.comparison_words import SIGNIFICANT
from rmuscle_ros.eval.error_plots import logarithmic, staircase
from rmuscle_ros.eval.labels import Label, place
from rmuscle_ros.eval.modes import DENSE
from rmuscle_ros.eval.sweep.factors import DEFAULT
from rmuscle_ros.eval.sweep.variants import FEWER, MASKED, RANDOM, SKIPPED

Found = Mapping[str, Any]
PAPER = 'preset paper'
# Success against dense: colour, marker and words.
SUCCESS_MARKS = {
    'reference': (svg.DENSE, 's', 'dense'),
    'same': (svg.CACHED, 'o', 'succeeds as often as dense, or more often'),
    'fewer': (svg.DRIFT, 'D', 'less often, a difference within chance'),
    'worse': (svg.FALLBACK, 'v', 'less often, beyond chance'),
}
FAMILY_MARKS = {
    FEWER: (svg.WAITING, 's'),
    SKIPPED: (svg.CACHED, 'o'),
    MASKED: (svg.FALLBACK, 'D'),
    RANDOM: (svg.MUTED, 'X'),
}
# Families do the same work and would cover each other.
FAMILY_SHIFTS = {FEWER: -0.12, SKIPPED: -0.04, MASKED: 0.04, RANDOM: 0.12}
PANEL_PX, WIDE_PANEL_PX = 345, 710
# More points than this need the width of two panels.
NARROW_POINTS = 6


@dataclass(frozen=True)
class Scales:
    """Vertical ranges that all panels share: ms, and what errors the logarithmic axis holds."""

    ms: tuple[float, float]
    errors: tuple[float, ...]


def verdict(name: str, mode: Found) -> str:
    """A key of ``SUCCESS_MARKS``."""
    test = mode['mcnemar']
    if name == DENSE or test is None:
        return 'reference'
    if test['worse'] <= test['better']:
        return 'same'
    return 'worse' if test['p'] < SIGNIFICANT else 'fewer'


def pareto(found: Found) -> str:
    """Mean latency against mean action error of every setting; a line joins the front.

    A thin line rises to the 99th percentile of the labelled ones; hollow: noise is shared.
    """
    modes = found['modes']
    at = {name: here for name, mode in modes.items() if (here := point(mode)) is not None}
    named = [name for name in (*found['front'], DEFAULT, PAPER) if name in at]
    tails = {name: _tail(modes[name]) for name in dict.fromkeys(named)}
    with svg.style():
        figure = svg.new_figure(1060, 480)
        axes = figure.add_subplot()
        heights = [here[1] for here in at.values()]
        floor = logarithmic(axes, 'y', [*heights, *tails.values(), found['spread']['p50']])
        drawn = {name: (ms, max(error, floor)) for name, (ms, error) in at.items()}
        times = [ms for ms, _ in drawn.values()]
        axes.set_xlim(min(times) - 0.06 * max(times), 1.08 * max(times))
        lines = staircase([drawn[name] for name in found['front']])
        for start, end in lines:
            axes.plot(*zip(start, end, strict=True), color=svg.MUTED, linewidth=1.3, zorder=1)
        for name, (ms, error) in drawn.items():
            colour, marker, _ = SUCCESS_MARKS[verdict(name, modes[name])]
            hollow = modes[name]['shared_noise']
            _mark(axes, (ms, error), colour, marker, hollow=hollow, ring=name == DEFAULT)
            if tails.get(name):
                _whisker(axes, (ms, error), max(tails[name] or error, floor), colour)
                lines.append(((ms, error), (ms, max(tails[name] or error, floor))))
        if found['spread']['p50']:
            axes.axhline(found['spread']['p50'], color=svg.INK, linewidth=1, linestyle=DASHED)
        axes.grid()
        axes.set_xlabel('mean time of one call, ms')
        axes.set_ylabel('mean action error, normalised units')
        labels = [
            Label(_with_success(name, modes[name]), *drawn[name], bold=name == DEFAULT)
            for name in tails
        ]
        place(figure, axes, labels, [*lines, *((at, at) for at in drawn.values())])
        return svg.to_svg(figure, 'Latency against action error of every setting', WIDE_PX)


def _with_success(name: str, mode: Found) -> str:
    k, n = mode['success']
    return f'{name}, {k}/{n}'


def _tail(mode: Found) -> float | None:
    error = mode['action_error']
    return None if error is None else error['p99'] or error['max']


def _mark(
    axes: Axes,
    at: tuple[float, float],
    colour: str,
    marker: str,
    *,
    hollow: bool = False,
    ring: bool = False,
    size: float = 7.0,
) -> None:
    axes.plot(
        *at,
        marker,
        markersize=size + 4 if ring else size,
        markerfacecolor='none' if hollow else colour,
        markeredgecolor=svg.INK if ring else colour,
        markeredgewidth=1.6 if ring or hollow else 0.8,
        clip_on=False,
        zorder=4 if ring else 3,
    )


def _whisker(axes: Axes, at: tuple[float, float], top: float, colour: str) -> None:
    axes.plot([at[0], at[0]], [at[1], top], color=colour, linewidth=1.2, alpha=0.6)


def scales(found: Found) -> Scales:
    """The ranges of every panel, so that a flat one says that its factor matters little."""
    factors = found['factors'].values()
    used = {setting for factor in factors for setting in factor['points'].values()} | {DEFAULT}
    at = {name: here for name in used if (here := point(found['modes'][name])) is not None}
    times = [ms for ms, _ in at.values()]
    tails = [_tail(found['modes'][name]) for name in at]
    errors = tuple(error for error in [*(e for _, e in at.values()), *tails] if error)
    return Scales((0.9 * min(times, default=0.0), 1.06 * max(times, default=1.0)), errors)


def panel(found: Found, name: str, shared: Scales) -> str:
    """Latency above, error below, along the values of one factor; dashed: the default."""
    modes, points = found['modes'], found['factors'][name]['points']
    width = PANEL_PX if len(points) <= NARROW_POINTS else WIDE_PANEL_PX
    with svg.style():
        figure = svg.new_figure(width, 270)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.25))
        above.set_ylim(*shared.ms)
        floor = logarithmic(below, 'y', shared.errors)
        if shared.errors:
            below.set_ylim(0.75 * min(shared.errors), None)
        default = point(modes[DEFAULT])
        for axes, value in zip((above, below), default or (), strict=bool(default)):
            axes.axhline(value, color=svg.INK, linewidth=0.9, linestyle=DASHED, zorder=0)
            axes.grid(axis='y')
        for x, setting in enumerate(points.values()):
            _column(above, below, x, setting, modes[setting], floor)
        above.set_ylabel('call, ms')
        below.set_ylabel('error')
        below.set_xlim(-0.5, len(points) - 0.5)
        ticks = [_tick(label, modes[setting]) for label, setting in points.items()]
        below.set_xticks(range(len(points)), ticks)
        for axes in (above, below):
            axes.tick_params(axis='x', length=0)
        for tick, setting in zip(below.get_xticklabels(), points.values(), strict=True):
            tick.set_fontweight('bold' if setting == DEFAULT else 'normal')
            tick.set_color(svg.INK)
        figure.align_ylabels()
        label = f'Latency and action error along {name}'
        return svg.to_svg(figure, label, width if width > PANEL_PX else 0)


def _tick(label: str, mode: Found) -> str:
    k, n = mode['success']
    return label.replace(' ', '\n') + f'\n{k}/{n}'


def _column(above: Axes, below: Axes, x: int, setting: str, mode: Found, floor: float) -> None:
    here = point(mode)
    if here is None:
        return
    colour, marker, _ = SUCCESS_MARKS[verdict(setting, mode)]
    error, tail = max(here[1], floor), _tail(mode)
    looks = {'hollow': mode['shared_noise'], 'ring': setting == DEFAULT}
    _mark(above, (x, here[0]), colour, marker, **looks)
    _mark(below, (x, error), colour, marker, **looks)
    if tail:
        _whisker(below, (x, error), max(tail, floor), colour)


def reuse(found: Found) -> str:
    """FFN work against mean action error of every variant; thin lines rise to the p95."""
    variants = found['variants']
    named = dict.fromkeys((*found['front'], found['default'], found['paper']))
    with svg.style():
        figure = svg.new_figure(1060, 520)
        axes = figure.add_subplot()
        values = [v['error'][key] for v in variants.values() for key in ('mean', 'p95')]
        logarithmic(axes, 'y', values)
        axes.set_ylim(0.75 * min(value for value in values if value), None)
        lines = staircase([_at(variants[name]) for name in found['front']])
        for start, end in lines:
            axes.plot(*zip(start, end, strict=True), color=svg.MUTED, linewidth=1.3, zorder=1)
        drawn = {name: _shifted(variant) for name, variant in variants.items()}
        for name, variant in variants.items():
            colour, marker = FAMILY_MARKS[variant['family']]
            ring, at = name in (found['default'], found['paper']), drawn[name]
            _mark(axes, at, colour, marker, hollow=variant['shared_noise'], ring=ring, size=5.5)
            if variant['error']['p95']:
                _whisker(axes, at, variant['error']['p95'], colour)
        axes.grid()
        axes.set_xlabel('FFN work, dense steps')
        axes.set_ylabel('mean action error, normalised units')
        labels = [_variant_label(found, name) for name in named]
        place(figure, axes, labels, [*lines, *((at, at) for at in drawn.values())])
        return svg.to_svg(figure, 'FFN work against action error of every variant', WIDE_PX)


def _at(variant: Found) -> tuple[float, float]:
    return variant['work'], variant['error']['mean']


def _shifted(variant: Found) -> tuple[float, float]:
    """Where the variant is drawn."""
    work, error = _at(variant)
    return work + FAMILY_SHIFTS[variant['family']], error


def _variant_label(found: Found, name: str) -> Label:
    titles = [title for title in ('default', 'paper') if found[title] == name]
    number = found['front'].index(name) + 1 if name in found['front'] else None
    parts = [*([str(number)] if number else []), *titles]
    at = _shifted(found['variants'][name])
    return Label(' '.join(parts), *at, bold='default' in titles)
