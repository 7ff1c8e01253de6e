"""The page of ``rmuscle eval sweep``: figures, a panel per factor, tables. Made from the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from rmuscle_ros.eval import comparison_setup, comparison_words, markup, svg, words
from rmuscle_ros.eval.comparison_words import error
from rmuscle_ros.eval.markup import Raw, text
from rmuscle_ros.eval.modes import DENSE
from rmuscle_ros.eval.sections import GLYPHS
from rmuscle_ros.eval.sweep import plots, readings
from rmuscle_ros.eval.sweep.factors import DEFAULT
from rmuscle_ros.eval.sweep.variants import FAMILIES

Result = Mapping[str, Any]
TITLE = 'rMuscle: one setting at a time'
STYLE = """
header ul { margin-bottom: 12px; }
.panels {
  display: grid; gap: 26px 24px; grid-auto-flow: dense; margin-top: 18px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr));
}
.panels > * { min-width: 0; }
.panels figure { overflow-x: auto; }
.panels p { font-size: 13.5px; }
.panels .note { min-height: 3em; margin: 0; }
h3.apart { margin-top: 18px; }
.comparison td:first-child strong, .comparison td:first-child span { white-space: nowrap; }
.split th.number { white-space: normal; }
@media (min-width: 780px) { .panels .broad { grid-column: span 2; } }
"""
HOLLOW = (svg.MUTED, '○', 'hollow: noise shared with the reference')
GLOSSARY = {
    key: meaning
    for key, meaning in comparison_words.GLOSSARY.items()
    if key not in ('late rebuild', 'dominated')
} | {
    'front': 'the settings that no other one beats in both quantities.',
    'rows computed': 'mean share of the visual rows whose FFNs are computed in prefill; a dense '
    'call computes all of them.',
    'FFN work': 'of denoising: neurons computed, summed over the steps, in units of a dense step. '
    'Skipped steps save their attention too, masked ones do not.',
    'noise shared': 'a call takes the noise of its reference, and is compared with the dense '
    'answer to that noise. That is another policy: each reference is one fixed draw.',
    'anchor': words.GLOSSARY['anchor'],
}


def page(result: Result) -> str:
    """One self-contained HTML page; ``result`` is what ``run.run`` publishes."""
    css = resources.files('rmuscle_ros.eval').joinpath('report.css').read_text(encoding='utf-8')
    body = ''.join(
        f'<section><h2>{text(title)}</h2>{content}</section>'
        for title, content in _sections(result).items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{TITLE}</title><style>{css}{STYLE}</style></head>'
        f'<body><header>{_header(result)}</header><main class="comparison">{body}</main>'
        '</body></html>\n'
    )


def _sections(result: Result) -> dict[str, str]:
    loop, reuse = result['closed_loop'], result['action_cache']
    found: dict[str, str] = {}
    if loop:
        found['Latency against action error'] = _front(loop)
        found['One factor at a time'] = _factors(loop)
    if reuse:
        found['Ways to reuse denoise steps, per unit of FFN work'] = _reuse(reuse)
    if loop:
        found['Every setting'] = _settings(loop)
    found['How to repeat this'] = comparison_setup.repeat(result)
    items = (
        f'<dt>{text(term)}</dt><dd>{text(meaning)}</dd>' for term, meaning in GLOSSARY.items()
    )
    found['What the terms mean'] = f'<dl>{"".join(items)}</dl>'
    return found


def _header(result: Result) -> str:
    first, last = result['seeds']
    machine, model = result['machine'], result['model']
    facts = [
        f'Task: “{result["instruction"]}”, scenes {first} to {last}',
        f'Policy: {words.model(model)}, {result["execution"]["engine"]} engine, '
        f'{result["execution"]["dtype"]}; {machine["cpu"]}, '
        f'{words.count(result["execution"]["threads"], "thread")}',
        f'Started: {result["started"].replace("T", " ")}',
    ]
    notices = []
    if not result['complete']:
        notices.append('The run ended early: only what every setting had finished is here.')
    known, total = result['found']['trials']
    if known:
        notices.append(
            f'{known} of {total} trials are of earlier runs with the same software: their '
            'latencies compare only if the machine was as idle then.'
        )
    if not model['trained']:
        notices.append(words.UNTRAINED)
    return (
        f'<h1>{TITLE}</h1>'
        + markup.bullets(readings.headline(result))
        + ''.join(markup.paragraph(line, kind='lead') for line in facts)
        + ''.join(markup.paragraph(notice, kind='notice') for notice in notices)
    )


def _front(found: Result) -> str:
    spread = found['spread']['p50']
    caption = (
        'Lower left is better. The grey line joins the settings that no other one with fresh '
        'noise beats in both; labels give the successes. Thin lines end at the 99th percentile, '
        'or the maximum of fewer than 100 calls. Ringed: the default.'
    )
    if spread:
        caption += f' Dashed: dense answers with different noise differ by {error(spread)}.'
    figure = markup.figure(plots.pareto(found), caption)
    return f'{_legend(found)}<div class="wide">{figure}</div>'


def _legend(found: Result, but: str = '') -> Raw:
    """The marks of success that occur, but for the setting ``but``."""
    verdicts = {plots.verdict(name, mode) for name, mode in found['modes'].items() if name != but}
    legend = [
        (colour, GLYPHS[marker], label)
        for key, (colour, marker, label) in plots.SUCCESS_MARKS.items()
        if key in verdicts
    ]
    if any(mode['shared_noise'] for mode in found['modes'].values()):
        legend.append(HOLLOW)
    return markup.legend(legend)


def _factors(found: Result) -> str:
    shared = plots.scales(found)
    parts = []
    for name, factor in found['factors'].items():
        broad = ' class="broad"' if len(factor['points']) > plots.NARROW_POINTS else ''
        parts.append(
            f'<div{broad}><h3>{text(name)}</h3>'
            + markup.paragraph(factor['description'] + '.', kind='note')
            + markup.figure(plots.panel(found, name, shared))
            + markup.paragraph(readings.factor(found, name))
            + '</div>'
        )
    note = markup.paragraph(
        'Everything else is the default. The panels share their scales: mean time of a call '
        'above, mean action error below with a line to its 99th percentile (the maximum of fewer '
        'than 100 calls). Dashed: the default. Below each value: successes.',
        kind='note',
    )
    return f'{note}{_legend(found, DENSE)}<div class="panels">{"".join(parts)}</div>'


def _reuse(found: Result) -> str:
    legend = [
        (plots.FAMILY_MARKS[family][0], GLYPHS[plots.FAMILY_MARKS[family][1]], family)
        for family in FAMILIES
    ]
    legend.append(HOLLOW)
    caption = (
        f'{words.count(found["states"], "dense state")} of {found["scenes"]} scenes, each '
        'answered with every variant; the prefill is exact. Families of equal work stand side by '
        'side; thin lines end at the 95th percentile. The grey line joins the variants with fresh '
        'noise that none beats in both; its numbers are those of the table. Ringed: the default '
        'and the published rules.'
    )
    figure = markup.figure(plots.reuse(found), caption)
    named = dict.fromkeys((*found['front'], found['default'], found['paper']))
    rows = [_variant_row(found, name) for name in named]
    header = ('', 'variant', 'work', 'error: mean', 'p95', 'largest')
    front = markup.table(header, rows, numbers_from=2)
    bests = markup.table(('work ≤', *FAMILIES, 'noise shared'), readings.by_work(found))
    effects = markup.bullets(readings.effect(effect) for effect in found['effects'])
    return (
        f'{markup.legend(legend)}<div class="wide">{figure}</div>'
        f'<div class="split"><div><h3>On the front</h3>{front}</div>'
        f'<div><h3>Smallest mean error for as much work</h3>{bests}</div></div>'
        '<h3 class="apart">What each option does, over pairs that differ in it alone</h3>'
        f'{effects}'
    )


def _variant_row(found: Result, name: str) -> tuple[Any, ...]:
    figure = found['variants'][name]
    number = str(found['front'].index(name) + 1) if name in found['front'] else '–'
    titles = [title for title in ('default', 'paper') if found[title] == name]
    label = f'{name} ({", ".join(titles)})' if titles else name
    errors = (error(figure['error'][key]) for key in ('mean', 'p95', 'max'))
    return number, label, f'{figure["work"]:g}', *errors


_HEADER = (
    'setting', 'succeeded', '95 % interval', 'won / lost', 'McNemar', 'call', 'median',
    'vision tower', 'prefill', 'denoising', 'error', 'median', 'p99', 'largest', 'cached calls',
    'rows computed',
)  # fmt: skip


def _settings(found: Result) -> str:
    used = (
        setting for factor in found['factors'].values() for setting in factor['points'].values()
    )
    rows = [_setting_row(name, found) for name in dict.fromkeys((DENSE, DEFAULT, *used))]
    note = markup.paragraph(
        'Call, stages and error: means over the scenes of each scene’s mean. Won / lost: scenes '
        'in which only this setting, or only dense, succeeded. Bold: on the front.',
        kind='note',
    )
    return markup.table(_HEADER, rows) + note


def _setting_row(setting: str, found: Result) -> tuple[Any, ...]:
    mode = found['modes'][setting]
    low, high = mode['success_interval']
    test, latency = mode['mcnemar'], mode['latency_ms']
    errors = mode['action_error'] or {}
    tag = 'strong' if setting in found['front'] else 'span'
    return (
        Raw(f'<{tag}>{text(setting)}</{tag}>'),
        words.k_of_n(mode['success']),
        f'{100 * low:.0f} to {100 * high:.0f} %',
        '–' if test is None else f'{test["better"]} / {test["worse"]}',
        '–' if test is None else comparison_words.p_value(test['p']),
        words.ms(latency['mean']),
        words.ms(latency['p50']),
        *(words.ms(latency['stage_means'][stage]) for stage in ('vision', 'prefill', 'denoise')),
        *(error(errors[key]) if errors else '–' for key in ('mean', 'p50', 'p99', 'max')),
        words.percent(mode['cached_share']),
        words.percent(mode['recomputed']),
    )
