"""The page of ``rmuscle eval``: every mode against dense, on one self-contained HTML page.

Made from the result's JSON alone, so that a page can be written again from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from rmuscle_ros.eval import comparison_sections as sections
from rmuscle_ros.eval import comparison_setup as setup
from rmuscle_ros.eval import comparison_words, markup, words
from rmuscle_ros.eval.markup import text
from rmuscle_ros.eval.modes import DENSE

SECTIONS = {
    'All modes': sections.overview,
    'Speed against fidelity': sections.speed,
    'Whether the task succeeded': sections.success,
    'How far the actions are from dense ones': sections.errors,
    'When something was reused, and what it cost in the background': sections.calls,
    'Modes and their settings': setup.settings,
    'How to repeat this': setup.repeat,
    'What the terms mean': setup.glossary,
}


def page(result: Mapping[str, Any]) -> str:
    """The HTML of the page; ``result`` is what ``closed_loop.compare`` publishes."""
    css = resources.files('rmuscle_ros.eval').joinpath('report.css').read_text(encoding='utf-8')
    body = ''.join(
        f'<section><h2>{text(title)}</h2>{section(result)}</section>'
        for title, section in SECTIONS.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>rMuscle: caching against dense and other methods</title><style>{css}</style>'
        f'</head><body><header>{_header(result)}</header><main class="comparison">'
        f'<section class="tiles">{_tiles(result)}</section>{body}</main></body></html>\n'
    )


def _header(result: Mapping[str, Any]) -> str:
    first, last = result['seeds']
    machine, model = result['machine'], result['model']
    parts = [machine['cpu'], words.count(machine['cores'], 'core') if machine['cores'] else None]
    parts += [machine['gpu'], words.count(result['execution']['threads'], 'thread')]
    lines = [
        ' '.join(
            filter(
                None, (comparison_words.interval_words(result), comparison_words.dominance(result))
            )
        ),
        f'Task: “{result["instruction"]}”, scenes {first} to {last}, each run in every mode '
        f'{comparison_words.pairing(result)}',
        f'Policy: {words.model(model)}, {result["execution"]["engine"]} engine, '
        f'{result["execution"]["dtype"]}',
        f'Machine: {", ".join(filter(None, parts))}',
        f'Started: {result["started"].replace("T", " ")}',
    ]
    notices = []
    if not result['complete']:
        notices.append('The run ended early: only the scenes that every mode had ended are here.')
    if not model['trained']:
        notices.append(words.UNTRAINED)
    return (
        f'<h1>{text(comparison_words.headline(result))}</h1>'
        + ''.join(markup.paragraph(line, kind='lead') for line in lines if line)
        + ''.join(markup.paragraph(notice, kind='notice') for notice in notices)
    )


def _tiles(result: Mapping[str, Any]) -> str:
    """The figures of the mode the page is about; what does not apply to it has no tile."""
    name = comparison_words.focus(result)
    mode, dense = result['modes'][name], result['modes'].get(DENSE, {})
    latency, calls, rebuild = mode['latency_ms'], mode['calls'], mode['rebuild']
    call, p99 = (words.ms(latency[key]) for key in ('mean', 'p99'))
    tiles = {f'A call of {name}, mean': (call, f'median {words.ms(latency["p50"])}')}
    success_note = ''
    if mode['mcnemar']:
        dense_call, dense_p99 = (words.ms(dense['latency_ms'][key]) for key in ('mean', 'p99'))
        note = f'mean {call}, dense {dense_call}'
        note += f'; 99th percentile {p99}, dense {dense_p99}' if latency['p99'] else ''
        tiles = {f'A call of {name} is': (words.speedup(mode['speedup_mean']), note)}
        success_note = f'dense {words.k_of_n(dense["success"])}; {comparison_words.test(mode)}'
    tiles['Success'] = (words.k_of_n(mode['success']), success_note)
    if mode['action_error']:
        spread = comparison_words.error(result['spread']['p50'])
        tiles['Action error, mean'] = (
            comparison_words.error(mode['action_error']['mean']),
            f'normalised; dense answers with other noise differ by {spread}',
        )
    total = sum(calls.values())
    if calls['cached'] or rebuild:
        tiles['Calls that reused states'] = (
            words.percent(calls['cached'] / total),
            f'{calls["cached"]} of {total}; nothing served the others',
        )
    if rebuild:
        tiles['Late rebuilds'] = (
            f'{rebuild["misses"]} of {rebuild["calls"]}',
            'took longer than the arm would have moved',
        )
    return ''.join(
        f'<div class="tile"><h3>{text(title)}</h3><p class="value">{text(value)}</p>'
        f'<p>{text(note)}</p></div>'
        for title, (value, note) in tiles.items()
    )
