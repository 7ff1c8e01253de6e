"""The page of ``rmuscle eval separation``: both distributions, with the fences drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np

from rmuscle_ros.eval import markup, svg
from rmuscle_ros.eval.separation import Distributions, stopped, stopped_by_drift

_COLOURS = (svg.CACHED, svg.DENSE, svg.WAITING, svg.FALLBACK)


def page(result: Distributions) -> str:
    """One self-contained HTML page."""
    css = resources.files('rmuscle_ros.eval').joinpath('report.css').read_text(encoding='utf-8')
    rows = [
        [name, *np.quantile(values, [0.05, 0.5, 0.95]).round(3).tolist()]
        + np.quantile(result.drift[name], [0.05, 0.5, 0.95]).round(2).tolist()
        + [f'{count(result, name)} of {len(values)}' for count in (stopped_by_drift, stopped)]
        for name, values in result.similarity.items()
    ]
    columns = ('similarity p5', 'p50', 'p95', 'drift p5', 'p50', 'p95', 'by drift', 'by either')
    header = ['frames', *columns]
    body = (
        '<h1>rMuscle: do the fences tell repetitions apart?</h1>'
        + markup.paragraph(
            'Test frames of the scripted expert, compared with reference episodes of other cube '
            'positions. A reference may serve only where both fences let it pass.',
            kind='lead',
        )
        + _section(
            'Similarity of visual keys',
            _strips(result.similarity, result.similarity_threshold, 'similarity fence', False),
            'Calls left of the fence are dense. It chooses the reference, and stops scenes that '
            'look like none.',
        )
        + _section(
            'Drift of the worst view',
            _strips(result.drift, 1.0, 'drift fence', True),
            'The worst view, in units of its limit; known before anything is copied. Calls right '
            'of the fence are dense. The limits are calibrated on the references alone.',
        )
        + '<section><h2>Numbers</h2>'
        + markup.table(header, rows)
        + '</section>'
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>rMuscle: separation</title><style>{css}</style></head>'
        f'<body><main>{body}</main></body></html>\n'
    )


def _section(title: str, figure: str, caption: str) -> str:
    return f'<section><h2>{title}</h2>{markup.figure(figure, caption)}</section>'


def _strips(values: Mapping[str, Sequence[float]], fence: float, label: str, right: bool) -> str:
    """One dot per frame, a strip per class, the fence as a line. right: it stops what is right."""
    rng = np.random.default_rng(0)
    with svg.style():
        figure = svg.new_figure(760, 260)
        axes = figure.add_subplot()
        for row, (name, colour) in enumerate(zip(values, _COLOURS, strict=True)):
            heights = row + rng.uniform(-0.25, 0.25, len(values[name]))
            axes.plot(values[name], heights, 'o', color=colour, markersize=4, alpha=0.6)
        axes.axvline(fence, color=svg.INK, linewidth=1.2, linestyle='--')
        axes.annotate(
            f'{label} {fence:.3g}',
            (fence, -0.55),
            xytext=(4 if right else -4, 0),
            textcoords='offset points',
            ha='left' if right else 'right',
            va='bottom',
        )
        axes.set_yticks(range(len(values)), list(values))
        axes.set_ylim(len(values) - 0.5, -0.9)
        axes.tick_params(axis='y', length=0, labelcolor=svg.INK)
        axes.spines['left'].set_visible(False)
        axes.grid(axis='x')
        return svg.to_svg(figure, label)
