"""One figure per observation, as inline SVG. Each takes the part of the result it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rmuscle_ros.eval import svg
from rmuscle_ros.eval.characterise.readings import KINDS, MASKS, MATCHES, PAPER

# Narrow enough for a phone.
WIDTH = 450
DASHED, DOTTED = (0, (5, 3)), (0, (1, 2))
# name -> colour, line style, label
ROW_ORDERS = {
    'change': (svg.INK, DASHED, 'rows that changed most'),
    'drift': (svg.CACHED, '-', 'by input drift'),
}
MASK_STYLES = {
    'oracle': (svg.INK, DASHED, MASKS['oracle']),
    'reference': (svg.CACHED, '-', MASKS['reference']),
    'reference_contribution': (svg.DENSE, '-', MASKS['reference_contribution']),
    'anchor': (svg.WAITING, '-', MASKS['anchor']),
}
SCORE_MARKS = {'contribution': (svg.CACHED, 'o', -0.14), 'delta': (svg.DENSE, 'D', 0.14)}
MATCH_MARKS = {
    'same_task': (svg.CACHED, 'o'),
    'other_task': (svg.FALLBACK, 'v'),
    'other_phase': (svg.DENSE, 's'),
}


def rows(context: Mapping[str, Any], measure: str, rho_p: float, title: str) -> str:
    """Share of the output change in the top k % of the rows; thin lines are single layers."""
    percent = context['percent']
    with svg.style():
        figure, axes = _square(title)
        _lines(axes, percent, context['curves'][measure], ROW_ORDERS)
        axes.plot([0, 100], [0, 100], color=svg.MUTED, linestyle=DOTTED, label='random rows')
        here = 100 * context['at_rho_p'][measure]['drift']['mean']
        _here(axes, 100 * rho_p, here)
        if measure == 'norm':
            _paper(axes, 100 * rho_p, 100 * PAPER['change_in_top_rows'])
        axes.set_xlabel('image rows, % of all')
        axes.set_ylabel('share of the output change, %')
        axes.legend(loc='lower right')
        return svg.to_svg(figure, f'{title}: share held by the top rows')


def masks(action: Mapping[str, Any], score: str, rho_n: float, title: str) -> str:
    """Share of a score that masks keep, by rho_n."""
    percent = [100 * rho for rho in action['rho_n']]
    with svg.style():
        figure, axes = _square(title)
        _lines(axes, percent, action['curves'][score], MASK_STYLES)
        axes.plot([0, 100], [0, 100], color=svg.MUTED, linestyle=DOTTED, label='random mask')
        here = 100 * action['at_rho_n'][score]['reference']['mean']
        _here(axes, 100 * rho_n, here)
        if score == 'contribution':
            _paper(axes, 100 * rho_n, 100 * PAPER['contribution_kept'])
        axes.set_xlabel('neurons computed, % of all')
        axes.set_ylabel('share kept, %')
        axes.legend(loc='lower right')
        return svg.to_svg(figure, f'{title}: share kept by masks')


def _square(title: str) -> tuple[Figure, Axes]:
    figure = svg.new_figure(WIDTH, 350)
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 102)
    axes.grid()
    return figure, axes


def _lines(
    axes: Axes,
    x: Sequence[float],
    curves: Mapping[str, Any],
    styles: Mapping[str, tuple[str, Any, str]],
) -> None:
    """The mean of each curve, and thinly its layers where the line is solid."""
    for name, (colour, style, label) in styles.items():
        if name not in curves:
            continue
        y = 100 * np.asarray(curves[name]['mean'])
        axes.plot(x, y, color=colour, linestyle=style, linewidth=2, label=label)
        if name in ('drift', 'reference'):
            for layer in curves[name]['layers'].values():
                axes.plot(x, 100 * np.asarray(layer), color=colour, linewidth=0.6, alpha=0.7)


def _here(axes: Axes, x: float, y: float) -> None:
    axes.plot([x], [y], 'o', color=svg.CACHED, markersize=7, zorder=5)
    _note(axes, x, y, f'here {y:.0f} %', svg.CACHED, below=True)


def _paper(axes: Axes, x: float, y: float) -> None:
    axes.plot([x], [y], 'X', color=svg.DRIFT, markersize=9, zorder=5)
    _note(axes, x, y, f'paper {y:.3g} %', svg.DRIFT, below=False)


def _note(axes: Axes, x: float, y: float, text: str, colour: str, below: bool) -> None:
    axes.annotate(
        text,
        (x, y),
        xytext=(9, -7) if below else (-9, 7),
        textcoords='offset points',
        color=colour,
        ha='left' if below else 'right',
        va='top' if below else 'bottom',
        fontweight='bold',
    )


def overlap(result: Mapping[str, Any]) -> str:
    """A row per kind of pair: the mean of both scores, p5 to p95 of the pairs as a line."""
    kinds = {kind: result['kinds'][kind] for kind in KINDS}
    with svg.style():
        figure = svg.new_figure(WIDTH, 360)
        axes = figure.add_subplot()
        for row, scores in enumerate(kinds.values()):
            for score, values in scores.items():
                _range(axes, score, row, values)
        for label, x, colour in (
            ('random', result['chance'], svg.MUTED),
            ('paper, other task', PAPER['overlap_other_task'], svg.DRIFT),
            ('paper, same task', PAPER['overlap_same_task'], svg.DRIFT),
        ):
            axes.axvline(100 * x, color=colour, linestyle=DASHED, linewidth=1, zorder=0)
            axes.annotate(
                f'{label} {100 * x:.0f}', (100 * x, -0.85), (-3, 0), textcoords='offset points',
                color=colour, fontsize=9, ha='right',
            )  # fmt: skip
        axes.set_xlim(right=100)
        axes.set_ylim(len(kinds) - 0.5, -1.1)
        axes.set_yticks(range(len(kinds)), [KINDS[kind].replace(', ', ',\n') for kind in kinds])
        axes.tick_params(axis='y', length=0, labelcolor=svg.INK)
        axes.spines['left'].set_visible(False)
        axes.grid(axis='x')
        axes.set_xlabel('important neurons in common, %')
        return svg.to_svg(figure, 'Important neurons in common, by kind of pair')


def _range(axes: Axes, score: str, row: int, values: Mapping[str, Any] | None) -> None:
    """The mean of one score in its row, labelled, and p5 to p95 where there are enough pairs."""
    if values is None:
        return
    colour, marker, offset = SCORE_MARKS[score]
    y, mean = row + offset, 100 * values['mean']
    if values['p5'] is not None:
        axes.plot([100 * values['p5'], 100 * values['p95']], [y, y], color=colour)
    axes.plot([mean], [y], marker, color=colour)
    axes.annotate(
        f'{mean:.0f}', (mean, y), (0, 5 if offset < 0 else -5), fontsize=9,
        textcoords='offset points', ha='center', va='bottom' if offset < 0 else 'top',
    )  # fmt: skip


def similarity(result: Mapping[str, Any], last_call: int) -> str:
    """Similarity of the best match per call number, one band per kind of call."""
    with svg.style():
        figure = svg.new_figure(WIDTH, 350)
        axes = figure.add_subplot()
        for kind in MATCHES:
            along = result['kinds'][kind]['along']
            dots = [(r['call'], r['similarity']) for r in result['kinds'][kind]['calls']]
            _band(axes, kind, along['call'], along['similarity'], dots, last_call)
        axes.axhline(result['fence'], color=svg.INK, linewidth=1, linestyle=DASHED)
        axes.annotate(
            f'fence {result["fence"]:g}: dense below', (1, result['fence']), (-3, -3),
            xycoords=('axes fraction', 'data'), textcoords='offset points', ha='right', va='top',
            fontsize=9,
        )  # fmt: skip
        axes.set_title('Similarity of the best match')
        axes.set_xlabel('call of the episode')
        axes.set_ylim(top=1.05)
        return svg.to_svg(figure, 'Similarity of the best match along episodes')


def drift(result: Mapping[str, Any], last_call: int) -> str:
    """Drift of each view from the best match, in units of its limit, per call number."""
    cameras = list(result['drift_limits'])
    with svg.style():
        figure = svg.new_figure(WIDTH, 40 + 103 * len(cameras))
        panels = figure.subplots(len(cameras), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, camera in zip(panels, cameras, strict=True):
            for kind in MATCHES:
                found = result['kinds'][kind]
                dots = [(r['call'], r['drift'][camera]) for r in found['calls']]
                along = found['along']
                _band(axes, kind, along['call'], along['drift'][camera], dots, last_call)
            axes.axhline(1, color=svg.INK, linewidth=1, linestyle=DASHED)
            axes.set_title(f'Drift of {camera}, in units of its limit')
        panels[0].set_ylim(bottom=0)
        panels[-1].set_xlabel('call of the episode')
        return svg.to_svg(figure, 'Drift of each view from the best match along episodes')


def _band(
    axes: Axes,
    kind: str,
    numbers: Sequence[int],
    spread: Sequence[Mapping[str, float | None]],
    dots: Sequence[tuple[int, float]],
    last_call: int,
) -> None:
    """A dot per call, the median as a line and p5 to p95 as a band, up to ``last_call``.

    Calls are counted from 1 on the axis.
    """
    colour, marker = MATCH_MARKS[kind]
    shift = 0.1 * (list(MATCHES).index(kind) - 1)
    shown = np.array([(call + 1 + shift, value) for call, value in dots if call <= last_call])
    if len(shown):
        axes.scatter(
            shown[:, 0], shown[:, 1], s=9, color=colour, marker=marker, alpha=0.45, linewidths=0
        )
    points = [(n + 1, s) for n, s in zip(numbers, spread, strict=True) if n <= last_call]
    middle = [(x, s['p50']) for x, s in points if s['p50'] is not None]
    if middle:
        axes.plot(*zip(*middle, strict=True), color=colour, linewidth=2)
    band = [(x, s['p5'], s['p95']) for x, s in points if s['p5'] is not None]
    if band:
        x, low, high = zip(*band, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def flops(result: Mapping[str, Any], steps: int) -> str:
    """FLOPs of a dense call by stage: saved by the caches, left of the FFNs, everything else."""
    names = {'vision': 'vision tower', 'prefill': 'prefill', 'denoise': f'{steps} denoise steps'}
    parts = {
        'other': (svg.MUTED, 'attention, projections, embeddings'),
        'left': (svg.CACHED, 'FFN, still computed'),
        'saved': (svg.DRIFT, 'FFN, saved by the caches'),
    }
    with svg.style():
        figure = svg.new_figure(WIDTH, 250)
        axes = figure.add_subplot()
        for row, stage in enumerate(names):
            values = result['stages'][stage]
            ffn, saved = values['ffn_flop'], values['saved_flop']
            widths = {'other': values['flop'] - ffn, 'left': ffn - saved, 'saved': saved}
            start = 0.0
            for name, (colour, label) in parts.items():
                width = widths[name] / 1e9
                legend = label if row == 0 else None
                axes.barh(row, width, left=start, height=0.6, color=colour, label=legend)
                start += width
            axes.annotate(
                f'{start:.2f}', (start, row), (4, 0), textcoords='offset points', va='center'
            )
        axes.set_yticks(range(len(names)), list(names.values()))
        axes.invert_yaxis()
        axes.tick_params(axis='y', length=0, labelcolor=svg.INK)
        axes.spines['left'].set_visible(False)
        axes.grid(axis='x')
        axes.set_xlabel('GFLOP of one dense call')
        axes.legend(loc='upper right')
        return svg.to_svg(figure, 'Arithmetic of one dense call by stage')
