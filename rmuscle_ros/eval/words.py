"""Numbers and outcomes in words; what is missing reads "no data", never 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmuscle_ros.statistics import needed
from rmuscle_ros.types import Reason

NO_DATA = 'no data'
UNTRAINED = 'The weights are untrained: success is not expected, only the speed counts.'

CATEGORY_WORDS = {
    'cached': 'cached',
    'dense': 'dense: caches switched off',
    'fallback': 'dense: a fence tripped, or the guard found no share',
    'not_ready': 'dense: the reference was not ready yet',
    'no_reference': 'dense: no reference for this task',
}

REASON_WORDS = {
    Reason.CACHED: 'the reference matched, its states were reused',
    Reason.CACHE_DISABLED: 'the caches were switched off',
    Reason.NO_REFERENCE: 'the library holds no episode of this task',
    Reason.REFERENCE_NOT_READY: 'the matching entry was not expanded in memory yet',
    Reason.NOT_CALIBRATED: 'drift fence and guard are not calibrated yet',
    Reason.FALLBACK_SIMILARITY: 'the view resembled no reference; dense until the episode ends',
    Reason.FALLBACK_DRIFT: 'a view had drifted too far from the reference',
    Reason.OVER_BUDGET: 'too large an error was estimated for every share of rows',
}

GLOSSARY = {
    'call': 'one inference of the policy: an observation in, a chunk of joint targets out.',
    'dense, cached': 'a call computed in full, or one that reuses states of a recorded episode.',
    'reference': 'a recorded dense episode; each of its calls is an entry that can be reused.',
    'ρp (rho_p)': 'Context Cache: share of image rows recomputed in prefill; the rest are copied.',
    'guard': 'estimates, before anything is copied, how far the actions will be from dense ones, '
    'and takes the smallest ρp that keeps this within the error budget; dense where none does.',
    'ρn (rho_n)': 'Action Cache: share of feed-forward neurons computed between two anchors; 0: '
    'the steps between them are skipped.',
    'anchor': 'a denoising step computed in full; the steps after it reuse it.',
    'similarity': 'cosine between what the cameras show now and the best matching reference.',
    'drift': 'how far the worst view has moved from the reference, as a part of its limit.',
    'reward': 'how far the task got, judged by the simulated task itself, from 0 to 4.',
    'fence': 'a limit on similarity or drift; beyond it no reference serves a call.',
    'prefill, denoising': 'reading images, instruction and state; then shaping the actions.',
}


def ms(value: float | None) -> str:
    """``97 ms``, ``4.2 ms``, or "no data"."""
    if value is None:
        return NO_DATA
    return f'{value:.0f} ms' if value >= 10 else f'{value:.1f} ms'


def rad(value: float | None) -> str:
    """``0.057 rad``; what is smaller than shown, but not zero, says so."""
    if value is None:
        return NO_DATA
    return '< 0.001 rad' if 0.0 < value < 0.001 else f'{value:.3f} rad'


def number(value: float | None, pattern: str = '{:.2f}') -> str:
    return NO_DATA if value is None else pattern.format(value)


def percent(value: float | None) -> str:
    return number(value, '{:.0%}').replace('%', ' %')


def k_of_n(success: list[int] | None) -> str:
    """``[3, 5]`` as "3 of 5"."""
    return NO_DATA if success is None else f'{success[0]} of {success[1]}'


def count(n: int, noun: str) -> str:
    """``1 episode``, ``2 episodes``, ``0 boundaries``."""
    plural = f'{noun[:-1]}ies' if noun.endswith('y') else f'{noun}s'
    return f'{n} {noun if n == 1 else plural}'


def speedup(value: float | None) -> str:
    """``1.4 × faster``; honest when it is slower or the same."""
    if value is None:
        return NO_DATA
    if abs(value - 1.0) < 0.005:
        return 'as fast'
    return f'{value:.2f} × faster' if value > 1.0 else f'{1.0 / value:.2f} × slower'


def of_dense(value: float | None) -> str:
    """A ratio of times as ``68 % of dense``."""
    return NO_DATA if value is None else f'{percent(value)} of dense'


def model(values: Mapping[str, Any]) -> str:
    """``tiny, 9.4 M parameters, untrained`` from the summary's model section."""
    parts = [str(values['name'])]
    if values['parameters'] is not None:
        parts.append(f'{values["parameters"] / 1e6:.1f} M parameters')
    if values['trained'] is not None:
        parts.append('trained' if values['trained'] else 'untrained')
    return ', '.join(parts)


def what_ran(summary: Mapping[str, Any]) -> str:
    """``5 cached and 2 dense episodes after 3 recorded reference episodes``."""
    kinds = [episode['kind'] for episode in summary['episodes']]
    text = f'{kinds.count("cached")} cached and {count(kinds.count("dense"), "dense episode")}'
    recorded = kinds.count('reference')
    return text + (f', after {count(recorded, "recorded reference episode")}' if recorded else '')


def rows(summary: Mapping[str, Any]) -> str:
    """How the share of image rows that cached calls recompute was chosen, of a run's summary."""
    settings, over = summary['settings'], summary['recomputed']['over_budget']
    if not settings.get('guard'):
        return 'a fixed share, without the guard'
    text = f'chosen by the guard, error budget {settings["error_budget"]:g}'
    return text + (f'; {count(over, "call")} over it ran densely' if over else '')


def steps(settings: Mapping[str, Any]) -> str:
    """``denoising steps 0, 3, 8 of 10 in full, the others skipped``; "" where not known."""
    anchors, rho_n = settings.get('anchors'), settings.get('rho_n')
    if anchors is None or rho_n is None:
        return ''
    between = f'{percent(rho_n)} of the neurons in the others' if rho_n else 'the others skipped'
    total = f' of {settings["denoise_steps"]}' if 'denoise_steps' in settings else ''
    return f'denoising steps {", ".join(map(str, anchors))}{total} in full, {between}'


def missing_p99(summary: Mapping[str, Any]) -> list[str]:
    """Why a 99th percentile is missing, as one sentence; [] when none is."""
    n = [values['n'] for values in summary['latency_ms'].values() if values['p99'] is None]
    if not n:
        return []
    return [f'A 99th percentile needs {needed(0.99)} calls of its kind.']
