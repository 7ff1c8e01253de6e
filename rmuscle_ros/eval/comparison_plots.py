"""Figures of the comparison page with one row per mode: latency, success, outcomes. Inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rmuscle_ros.eval import svg, words
from rmuscle_ros.eval.modes import DEFAULT, DENSE

Modes = Mapping[str, Mapping[str, Any]]

STAGES = {'vision': 'vision tower', 'prefill': 'prefill', 'denoise': 'denoising'}
STAGE_ALPHA = {'vision': 0.3, 'prefill': 0.6, 'denoise': 1.0}
ROW_PX = 29
SQUARE_PX = 19
# Figures of a page's width scroll on a phone, rather than become illegible.
WIDE_PX = 860
DASHED = (0, (5, 3))


def colour(name: str) -> str:
    """Placeholder of the mode's family: dense, rmuscle and its variants, other methods."""
    if name == DENSE:
        return svg.DENSE
    return svg.CACHED if name.startswith(DEFAULT) else svg.WAITING


def rows(
    names: Sequence[str], width_px: int, panels: int = 1, row_px: int = ROW_PX
) -> tuple[Figure, list[Axes]]:
    """A figure of ``panels`` axes side by side, whose rows are the modes, first on top."""
    figure = svg.new_figure(width_px, 52 + row_px * len(names))
    axes = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    axes[0].set_yticks(range(len(names)), names)
    for panel in axes:
        panel.tick_params(axis='y', length=0, labelcolor=svg.INK)
        panel.spines['left'].set_visible(False)
        panel.grid(axis='x')
    for label, name in zip(axes[0].get_yticklabels(), names, strict=True):
        label.set_fontweight('bold' if name == DEFAULT else 'normal')
    return figure, axes


def latency(modes: Modes) -> str:
    """Stacked bars: mean time of each stage, the mean of the whole call and its ratio to dense."""
    with svg.style():
        figure, (axes,) = rows(list(modes), 540)
        highest = max((mode['latency_ms']['mean'] or 0.0 for mode in modes.values()), default=0.0)
        for row, (name, mode) in enumerate(modes.items()):
            if mode['latency_ms']['mean'] is None:
                axes.text(0, row, words.NO_DATA, va='center', color=svg.MUTED)
                continue
            end_ms = _bar(axes, row, mode['latency_ms']['stage_means'], colour(name))
            ratio = mode['speedup_mean']
            label = words.ms(mode['latency_ms']['mean'])
            if name != DENSE and ratio is not None:
                label += f', {ratio:.2f} ×'
            axes.text(end_ms + 0.015 * highest, row, label, va='center', fontsize=10)
        axes.set_xlim(0, 1.3 * highest or 1.0)
        axes.set_xlabel('mean time of one call, ms')
        return svg.to_svg(figure, 'Mean latency of a call by stage, per mode')


def _bar(axes: Axes, row: int, stage_ms: Mapping[str, float], placeholder: str) -> float:
    """Draw the stages one after the other; where they end."""
    end_ms = 0.0
    for stage, alpha in STAGE_ALPHA.items():
        axes.barh(
            row, stage_ms[stage], 0.6, left=end_ms, color=placeholder, alpha=alpha, linewidth=0
        )
        end_ms += stage_ms[stage]
    return end_ms


def success(modes: Modes) -> str:
    """Left: rates with Wilson intervals. Right: difference from dense with paired intervals."""
    compared = any(mode['difference'] for mode in modes.values())
    with svg.style():
        figure, panels = rows(list(modes), 1060 if compared else 520, 1 + compared)
        for row, (name, mode) in enumerate(modes.items()):
            k, n = mode['success']
            _interval(panels[0], row, k / n, mode['success_interval'], name)
            if mode['difference']:
                difference = mode['difference']
                _interval(panels[1], row, difference['share'], difference['interval'], name)
        panels[0].set_xlim(-0.02, 1.02)
        panels[0].set_xlabel('success rate, 95 % interval')
        if DENSE in modes:
            k, n = modes[DENSE]['success']
            panels[0].axvline(k / n, color=svg.DENSE, linewidth=1, linestyle=DASHED, zorder=0)
        if compared:
            panels[1].axvline(0, color=svg.DENSE, linewidth=1, linestyle=DASHED, zorder=0)
            panels[1].set_xlabel('paired difference from dense, 95 % interval')
        for axes in panels:
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=' %'))
        label = 'Success of each mode and its difference from dense'
        return svg.to_svg(figure, label, WIDE_PX if compared else 0)


def _interval(axes: Axes, row: int, value: float, interval: Sequence[float], name: str) -> None:
    axes.plot(interval, [row, row], color=colour(name), linewidth=2, alpha=0.7)
    axes.plot(value, row, 'o', color=colour(name), markersize=9 if name == DEFAULT else 6.5)


def outcomes(episodes: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A square per mode and scene, filled when it succeeded; columns are scenes."""
    names = list(episodes)
    seeds = [trial['seed'] for trial in episodes[names[0]]]
    with svg.style():
        width_px = max(360, 110 + SQUARE_PX * len(seeds))
        figure, (axes,) = rows(names, width_px, row_px=21)
        for row, name in enumerate(names):
            for column, trial in enumerate(episodes[name]):
                _square(axes, column, row, trial['success'], colour(name))
        axes.set_xlim(-0.6, len(seeds) - 0.4)
        wide = (7 * len(str(seeds[-1])) + 6) / SQUARE_PX
        every = next(step for step in (1, 2, 5, 10) if step >= wide)
        axes.set_xticks(range(0, len(seeds), every), [str(seed) for seed in seeds[::every]])
        axes.spines['bottom'].set_visible(False)
        axes.tick_params(axis='x', length=0)
        axes.grid(visible=False)
        axes.set_xlabel('scene')
        return svg.to_svg(figure, 'Outcome of every scene in every mode', min(width_px, WIDE_PX))


def _square(axes: Axes, column: int, row: int, filled: bool, placeholder: str) -> None:
    axes.plot(
        column,
        row,
        's',
        markersize=11,
        markerfacecolor=placeholder if filled else 'none',
        markeredgecolor=placeholder if filled else svg.MUTED,
        markeredgewidth=0.8,
        alpha=0.8 if filled else 1.0,
    )
