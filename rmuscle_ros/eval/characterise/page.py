"""The page of ``rmuscle eval characterise``: a figure and its reading per observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from rmuscle_ros.eval import markup, words
from rmuscle_ros.eval.characterise import plots, readings
from rmuscle_ros.eval.sections import GLYPHS

TITLE = 'rMuscle: what repeats inside this policy'
# Unlike those of the report, these figures are legible at a phone's width.
STYLE = '.reading { margin-top: 10px; } .split figure svg { min-width: 0 !important; }'
PAPER_NOTE = (
    'The paper (arXiv 2609.19104) observed π0.5, a model of 3 billion parameters, at its own '
    'tasks. It does not say how it measures a change nor which calls it compares for the overlap: '
    'below are the size of a change and its square, and several kinds of pairs.'
)
METHOD = (
    'Every call is a dense one, of closed-loop episodes that the policy itself drives; references '
    'come from other scenes, with noise of their own.',
    'The matched reference is the most similar of all recorded calls, by visual key. Rows and '
    'neurons are studied for the test calls above the similarity fence: the others run densely.',
    'Shares are computed per call and layer, then averaged. Thin lines are single layers.',
    'Drift: rms(x − x_ref) / rms(x) of an image row at the input of a prefill FFN.',
    'A neuron counts as important when it is in the mask: the top {rho_n} by its score, summed '
    'over the rows and steps between two anchors.',
    'FLOPs: 2 per weight and row for matrix products, convolutions and attention. Time also goes '
    'into what has no FLOPs: bounds are not promises.',
)


def page(result: Mapping[str, Any]) -> str:
    """One self-contained HTML page."""
    css = resources.files('rmuscle_ros.eval').joinpath('report.css').read_text(encoding='utf-8')
    body = ''.join(
        (
            f'<h1>{TITLE}</h1>',
            markup.paragraph(readings.what_ran(result) + '.', kind='lead'),
            *(
                [markup.paragraph(words.UNTRAINED, kind='notice')]
                if not result['model']['trained']
                else []
            ),
            _summary(result),
            _context(result),
            _action(result),
            _overlap(result),
            _similarity(result),
            _flops(result),
            _layers(result),
            _method(result),
        )
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{TITLE}</title><style>{css}{STYLE}</style></head>'
        f'<body><main>{body}</main></body></html>\n'
    )


def _section(title: str, *parts: str) -> str:
    return f'<section><h2>{title}</h2>{"".join(parts)}</section>'


def _reading(sentences: Sequence[str], caption: str = '') -> str:
    """The first sentence is the reading, the others explain it."""
    parts = (
        markup.paragraph(sentences[0]),
        markup.paragraph(*sentences[1:], kind='note'),
        markup.paragraph(caption, kind='note'),
    )
    return f'<div class="reading">{"".join(parts)}</div>'


def _split(*figures: str) -> str:
    return f'<div class="split">{"".join(markup.figure(figure) for figure in figures)}</div>'


def _beside(figure: str, reading: str) -> str:
    return f'<div class="split">{markup.figure(figure)}{reading}</div>'


def _summary(result: Mapping[str, Any]) -> str:
    header = ('observation', 'here', 'paper (π0.5)')
    table = markup.table(header, readings.compared_rows(result))
    note = markup.paragraph(PAPER_NOTE, kind='note')
    return _section(
        'Here and in the paper', f'<div class="split"><div>{table}</div><div>{note}</div></div>'
    )


def _context(result: Mapping[str, Any]) -> str:
    context, rho_p = result['context'], result['settings']['rho_p']
    return _section(
        'How much of the change do the rows that drifted most hold?',
        _split(
            plots.rows(context, 'norm', rho_p, 'Size of the change, ‖y − y_ref‖'),
            plots.rows(context, 'square', rho_p, 'Energy of the change, ‖y − y_ref‖²'),
        ),
        _reading(readings.context(result)),
    )


def _action(result: Mapping[str, Any]) -> str:
    action, rho_n = result['action'], result['settings']['rho_n']
    return _section(
        'How much do the most important neurons hold?',
        _split(
            plots.masks(action, 'contribution', rho_n, 'Contribution, Σ|h| · ‖W_down‖'),
            plots.masks(action, 'delta', rho_n, 'Change since the anchor, Σ|h − h_a| · ‖W_down‖'),
        ),
        _reading(readings.action(result)),
    )


def _overlap(result: Mapping[str, Any]) -> str:
    legend = [
        (colour, GLYPHS[marker], readings.SCORES[score])
        for score, (colour, marker, _) in plots.SCORE_MARKS.items()
    ]
    return _section(
        'Do calls share their important neurons?',
        markup.legend(legend),
        _beside(plots.overlap(result['overlap']), _reading(readings.overlap(result))),
    )


def _similarity(result: Mapping[str, Any]) -> str:
    similar = result['similarity']
    along = similar['kinds']['same_task']['along']
    # Beyond the usual length there are only the episodes that fail, and few of them.
    counted = zip(along['call'], along['episodes'], strict=True)
    last = max(call for call, episodes in counted if 2 * episodes >= along['episodes'][0])
    later = sum(row['call'] > last for row in similar['kinds']['same_task']['calls'])
    caption = (
        'A dot per call, the median as a line, p5 to p95 as a band where 20 episodes have one.'
    )
    if later:
        caption += (
            f' {words.count(later, "call")} after number {last + 1}, which most episodes do '
        )
        caption += 'not reach, are not drawn.'
    legend = [
        (colour, GLYPHS[marker], readings.MATCHES[kind])
        for kind, (colour, marker) in plots.MATCH_MARKS.items()
    ]
    return _section(
        'Do episodes resemble each other?',
        markup.legend(legend),
        _split(plots.similarity(similar, last), plots.drift(similar, last)),
        _reading(readings.similarity(result), caption),
    )


def _flops(result: Mapping[str, Any]) -> str:
    return _section(
        'What can caching FFNs give?',
        _beside(
            plots.flops(result['flops'], result['settings']['denoise_steps']),
            _reading(readings.flops(result)),
        ),
    )


def _layers(result: Mapping[str, Any]) -> str:
    """The headline means of every layer: one table per stack."""
    tables = (_layer_table(rows) for rows in readings.layer_rows(result))
    parts = ''.join(f'<div>{table}</div>' for table in tables)
    return _section('Layer by layer', f'<div class="split">{parts}</div>')


def _layer_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """rows: label -> site -> share."""
    sites = list(next(iter(rows.values())))
    cells = [[label, *map(words.percent, layers.values())] for label, layers in rows.items()]
    return markup.table(['', *sites], cells)


def _method(result: Mapping[str, Any]) -> str:
    settings, episodes = result['settings'], result['episodes']
    scenes = {name: f'{e["scenes"][0]} to {e["scenes"][-1]}' for name, e in episodes.items()}
    success = {name: words.k_of_n(e['success']) for name, e in episodes.items()}
    facts = {
        'references': f'scenes {scenes["references"]}, successful: {success["references"]}',
        'tests': f'scenes {scenes["tests"]}, successful: {success["tests"]}',
        f'other task ({settings["other_task"]})': f'scenes {scenes["other"]}, successful: '
        f'{success["other"]}',
        'schedule': f'{settings["denoise_steps"]} denoise steps in groups of '
        f'{settings["group_len"]}; the first of a group is its anchor',
    }
    rho_n = words.percent(settings['rho_n'])
    method = [sentence.format(rho_n=rho_n) for sentence in METHOD]
    columns = (
        f'<div>{markup.key_values(facts)}</div>',
        f'<div>{markup.bullets(method)}</div>',
    )
    cards = ''.join(
        f'<div><h3>{name}</h3>{markup.key_values(values)}</div>'
        for name, values in (
            ('Model', result['model']),
            ('Versions', {k: v or 'not found' for k, v in result['versions'].items()}),
            ('Machine', {k: v or 'not found' for k, v in result['machine'].items()}),
        )
    )
    return _section(
        'How it was measured', f'<div class="split">{"".join(columns)}</div>'
    ) + _section('Model, versions, machine', f'<div class="cards">{cards}</div>')
