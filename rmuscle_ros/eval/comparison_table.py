"""The result of ``rmuscle eval`` for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval import comparison_words, words

_WIDTHS = {
    'success': 10,
    '95 % interval': 16,
    'vs dense': 10,
    'McNemar': 12,
    'call p50': 11,
    'mean': 10,
    'p99': 10,
    'speedup': 9,
    'action error mean, p99, max': 30,
    'cached': 12,
}


def table(result: Mapping[str, Any]) -> str:
    """One line per mode, then what the columns mean."""
    first, last = result['seeds']
    lines = [
        f'{result["task"]}, scenes {first} to {last}, {result["model"]["name"]}',
        '',
        _line('mode', list(_WIDTHS)),
        *(_line(name, _cells(mode)) for name, mode in result['modes'].items()),
        '',
        'vs dense: scenes won and lost where the two differ, with McNemar’s exact test. Means: '
        'over scenes, of each scene’s mean. Speedup: of the mean.',
        'Action error: mean |difference| from the dense answer with the same noise, normalised.',
    ]
    spread = result['spread']
    if spread['p50'] is not None:
        lines.append(
            f'Dense answers with other noise differ by {comparison_words.spread(spread)}.'
        )
    if result['execution']['ros']:
        lines.append(comparison_words.ROS)
    if not result['complete']:
        lines.append('NOT COMPLETE: the run ended early.')
    return '\n'.join(lines)


def _cells(mode: Mapping[str, Any]) -> list[str]:
    low, high = mode['success_interval']
    test, latency = mode['mcnemar'], mode['latency_ms']
    error = mode['action_error'] or dict.fromkeys(('mean', 'p99', 'max'))
    calls = mode['calls']
    return [
        words.k_of_n(mode['success']),
        f'{low:.0%} to {high:.0%}',
        '-' if test is None else f'+{test["better"]} -{test["worse"]}',
        '-' if test is None else comparison_words.p_value(test['p']),
        *(_cell(latency[key], '{:.1f} ms') for key in ('p50', 'mean', 'p99')),
        _cell(mode['speedup_mean'], '{:.2f}x'),
        ', '.join(_cell(error[key], '{:.4f}') for key in ('mean', 'p99', 'max')),
        f'{calls["cached"]} of {sum(calls.values())}',
    ]


def _line(name: str, cells: list[str]) -> str:
    widths = zip(cells, _WIDTHS.values(), strict=True)
    return f'{name:14}' + ''.join(f'{text:>{width}}' for text, width in widths)


def _cell(value: float | None, pattern: str) -> str:
    return '-' if value is None else pattern.format(value)
