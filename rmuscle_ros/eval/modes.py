"""The modes of ``rmuscle eval``: names, descriptions and settings, without importing PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmuscle_ros.config import hint
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.methods import METHODS
from rmuscle_ros.presets import PRESETS

DENSE = 'dense'
# The mode whose settings are the defaults of this package.
DEFAULT = 'rmuscle'
ALL = 'all'
# Euler steps the shipped policy was trained for; dense calls and references use them.
DENSE_STEPS = 10
# The toughest competitor on the tuning scenes (700000 to 700019): the closest to dense of those
# as fast as the default. A single step succeeds as often there, at three times the error
# (`rmuscle eval sweep` has them all).
FEWER_STEPS = 3
DENSE_VALUES: dict[str, Any] = {'cache.enabled': False, 'engine.denoise_steps': DENSE_STEPS}


@dataclass(frozen=True)
class EvalMode:
    """One way to answer calls.

    method: a name in ``eval.methods``; empty: a ``Policy``.
    values: dotted configuration keys of the Policy, or keyword settings of the method.
    references: whether it reads recorded episodes.
    rebuilds: whether it expands references in the background, between calls.
    """

    name: str
    description: str
    values: Mapping[str, Any] = field(default_factory=dict)
    method: str = ''
    references: bool = False
    rebuilds: bool = False


def _cached(name: str, preset: str, description: str) -> EvalMode:
    return EvalMode(name, description, PRESETS[preset], references=True, rebuilds=True)


def _method(name: str) -> EvalMode:
    entry = METHODS[name]
    description = f'{entry.summary} ({entry.source})'
    return EvalMode(name, description, method=name, references=entry.references)


MODES: dict[str, EvalMode] = {
    mode.name: mode
    for mode in (
        EvalMode(DENSE, f'every call computed in full, {DENSE_STEPS} denoise steps', DENSE_VALUES),
        _cached('rmuscle', 'default', 'both caches with the default settings'),
        _cached(
            'rmuscle_fixed', 'fixed', 'the default settings without the guard: fixed fractions'
        ),
        _cached('rmuscle_paper', 'paper', 'the rules as published'),
        EvalMode(
            'fewer_steps',
            f'no caches, {FEWER_STEPS} denoise steps',
            {
                'cache.enabled': False,
                'engine.denoise_steps': FEWER_STEPS,
                'cache.anchors': (0,),
            },
        ),
        *map(_method, METHODS),
    )
}


def find_modes(text: str) -> list[EvalMode]:
    """The modes of a comma-separated list, or of ``all``, in its order; ConfigError otherwise."""
    names = [name.strip() for name in text.split(',')]
    if names == [ALL]:
        return list(MODES.values())
    for name in names:
        if name not in MODES:
            raise ConfigError(
                f'--modes: found {name!r}{hint(name, MODES)}, expected names of '
                f'{", ".join(MODES)}, joined by commas, or {ALL}'
            )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f'--modes: found {", ".join(sorted(twice))} twice, expected it once')
    return [MODES[name] for name in names]


def describe(modes: Sequence[EvalMode]) -> str:
    """One line per mode, for ``--help``."""
    return '\n'.join(f'  {mode.name:14}{mode.description}' for mode in modes)
