"""The result of a sweep for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmuscle_ros.eval import comparison_words, words
from rmuscle_ros.eval.modes import DENSE
from rmuscle_ros.eval.sweep import readings
from rmuscle_ros.eval.sweep.factors import DEFAULT

_NAME_WIDTH = 24
_WIDTHS = {
    'success': 10,
    '95 % interval': 15,
    'vs dense': 10,
    'McNemar': 11,
    'call': 9,
    'p50': 9,
    'vision': 9,
    'prefill': 9,
    'denoise': 9,
    'error mean, p50, p99, max': 35,
    'cached': 8,
    'rows': 6,
}


def table(result: Mapping[str, Any]) -> str:
    """Every factor's settings, then the Action Cache's fronts and options."""
    first, last = result['seeds']
    lines = [f'{result["task"]}, scenes {first} to {last}, {result["model"]["name"]}', '']
    if result['closed_loop']:
        lines += _closed_loop(result['closed_loop'])
    if result['action_cache']:
        lines += ['', *_action_cache(result['action_cache'])]
    lines += ['', *(f'* {sentence}' for sentence in readings.headline(result))]
    if not result['complete']:
        lines.append('NOT COMPLETE: the run ended early.')
    return '\n'.join(lines)


def _closed_loop(found: Mapping[str, Any]) -> Iterator[str]:
    modes, on_front = found['modes'], set(found['front'])
    yield _line('', list(_WIDTHS))
    yield _line(DENSE, _cells(modes[DENSE]), DENSE in on_front)
    yield _line(DEFAULT, _cells(modes[DEFAULT]), DEFAULT in on_front)
    for name, factor in found['factors'].items():
        yield ''
        yield f'{name}: {factor["description"]}'
        for label, setting in factor['points'].items():
            mark = ' (default)' if setting == DEFAULT else ''
            yield _line(f'  {label}{mark}', _cells(modes[setting]), setting in on_front)
    yield ''
    yield (
        '*: no other setting is both faster and closer to dense (means over scenes). call, '
        'vision, prefill, denoise: mean ms. rows: mean share of visual rows computed, dense calls '
        'included.'
    )
    yield (
        'error: mean |difference| from the dense answer with the same noise, normalised; with '
        "shared noise from the dense answer to the reference's."
    )


def _cells(mode: Mapping[str, Any]) -> list[str]:
    low, high = mode['success_interval']
    test, latency = mode['mcnemar'], mode['latency_ms']
    stages = latency['stage_means']
    error = mode['action_error'] or dict.fromkeys(('mean', 'p50', 'p99', 'max'))
    return [
        words.k_of_n(mode['success']),
        f'{low:.0%} to {high:.0%}',
        '-' if test is None else f'+{test["better"]} -{test["worse"]}',
        '-' if test is None else comparison_words.p_value(test['p']),
        *(_cell(latency[key], '{:.1f}') for key in ('mean', 'p50')),
        *(_cell(stages[key], '{:.1f}') for key in ('vision', 'prefill', 'denoise')),
        ', '.join(_cell(error[key], '{:.4f}') for key in ('mean', 'p50', 'p99', 'max')),
        f'{mode["cached_share"]:.0%}',
        _cell(mode['recomputed'], '{:.2f}'),
    ]


def _line(name: str, cells: list[str], on_front: bool = False) -> str:
    widths = zip(cells, _WIDTHS.values(), strict=True)
    mark = '*' if on_front else ' '
    return f'{mark}{name:{_NAME_WIDTH}}' + ''.join(f'{text:>{width}}' for text, width in widths)


def _cell(value: float | None, pattern: str) -> str:
    return '-' if value is None else pattern.format(value)


def _action_cache(found: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f'Action Cache: action error against FFN work (dense steps), {found["states"]} states of '
        f'{found["scenes"]} scenes, prefill exact'
    )
    yield f'{"work":>6}{"mean":>9}{"p95":>9}{"max":>9}  variant'
    shown = dict.fromkeys((*found['front'], found['default'], found['paper']))
    for name in sorted(shown, key=lambda n: found['variants'][n]['work']):
        figure = found['variants'][name]
        error = figure['error']
        marks = [mark for mark in ('default', 'paper') if found[mark] == name]
        marks += ['front'] if name in found['front'] else []
        cells = ''.join(f'{_cell(error[key], "{:.4f}"):>9}' for key in ('mean', 'p95', 'max'))
        yield f'{figure["work"]:>6.3g}{cells}  {name} ({", ".join(marks)})'
    for effect in found['effects']:
        yield f'  {readings.effect(effect)}'
