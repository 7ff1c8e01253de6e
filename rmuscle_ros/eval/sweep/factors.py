"""What is swept: one factor at a time around the defaults. Imports no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmuscle_ros.config import PolicyConfig, fields_of, hint
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.modes import DENSE_STEPS
from rmuscle_ros.presets import PRESETS

DEFAULT = 'default'
ALL = 'all'
_DEFAULTS = {key: value for key, _, value in fields_of(PolicyConfig())}


@dataclass(frozen=True)
class Point:
    """One value of a factor. values: dotted configuration keys over the defaults.

    references: recorded episodes in the library; None takes the sweep's own number.
    """

    label: str
    values: Mapping[str, Any] = field(default_factory=dict)
    references: int | None = None


@dataclass(frozen=True)
class Factor:
    name: str
    description: str
    points: tuple[Point, ...]


def along(key: str, *values: Any, also: Mapping[str, Any] | None = None) -> tuple[Point, ...]:
    """A point per value of one option; ``also`` holds for all of them.

    Without it a number that is the default now is among them, whatever it is.
    """
    default = _DEFAULTS[key]
    if not also and isinstance(default, (int, float)) and default not in values:
        values = tuple(sorted((*values, default)))
    return tuple(Point(_label(value), {key: value, **(also or {})}) for value in values)


def _label(value: Any) -> str:
    return f'{value:g}' if isinstance(value, float) else str(value)


# How many denoise steps are computed, and where.
ANCHORS: dict[str, tuple[int, ...]] = {
    '2 regular': (0, 5),
    '3 early': (0, 1, 4),
    '3 late': (0, 5, 8),
    '4 early': (0, 1, 3, 6),
    '4 regular': (0, 3, 6, 9),
    '4 spread': (0, 2, 5, 8),
    '4 late': (0, 4, 7, 9),
    '5 early': (0, 1, 2, 4, 7),
    '5 regular': (0, 2, 4, 6, 8),
    '5 late': (0, 3, 5, 7, 9),
    '6 late': (0, 3, 5, 7, 8, 9),
}
if _DEFAULTS['cache.anchors'] not in ANCHORS.values():
    ANCHORS['default'] = _DEFAULTS['cache.anchors']
_PAPER_ANCHORS = {'cache.anchors': PRESETS['paper']['cache.anchors']}
_HALF = {'cache.rho_n': 0.5}
_SHARED = {'cache.noise': 'shared'}

FACTORS: tuple[Factor, ...] = (
    Factor(
        'error_budget',
        'action error that the guard lets nine of ten calls stay below',
        along('cache.error_budget', 0.005, 0.01, 0.02, 0.04),
    ),
    Factor(
        'rho_p',
        'share of visual rows recomputed, without the guard',
        along('cache.rho_p', 0.2, 0.4, 0.6, 0.8, also={'cache.guard': False}),
    ),
    Factor(
        'anchors',
        f'how many of {DENSE_STEPS} denoise steps are computed, and where',
        tuple(Point(label, {'cache.anchors': steps}) for label, steps in ANCHORS.items()),
    ),
    Factor(
        'rho_n',
        'share of neurons computed between the default anchors; 0 skips these steps',
        along('cache.rho_n', 0.0, 0.25, 0.5),
    ),
    Factor(
        'rho_n_paper',
        'share of neurons computed between the paper’s anchors',
        along('cache.rho_n', 0.0, 0.25, 0.5, also=_PAPER_ANCHORS),
    ),
    Factor(
        'unselected',
        'what is not computed between anchors; reference needs shared noise',
        (
            *along('cache.unselected', 'hold', 'extrapolate'),
            Point('reference', {'cache.unselected': 'reference', **_SHARED}),
        ),
    ),
    Factor(
        'mask_source',
        'whose activity chooses the neurons, at ρn 0.5',
        along('cache.mask_source', 'reference', 'anchor', 'both', also=_HALF),
    ),
    Factor(
        'score',
        'what makes a neuron important, at ρn 0.5',
        along('cache.score', 'contribution', 'delta', also=_HALF),
    ),
    Factor(
        'references',
        'expanded entries of which each row takes the nearest',
        along('cache.references', 1, 2, 4, 8),
    ),
    Factor(
        'candidates', 'reference episodes followed at once', along('cache.candidates', 1, 4, 8)
    ),
    Factor('lookahead', 'positions expanded ahead', along('cache.lookahead', 1, 4, 8)),
    Factor(
        'similarity_threshold',
        'similarity fence',
        along('cache.similarity_threshold', 0.7, 0.8, 0.9),
    ),
    Factor(
        'drift_slack',
        'drift fence: factor on the calibrated limit',
        (*along('cache.drift_slack', 1.0, 1.5, 2.0), Point('off', {'cache.drift_fence': False})),
    ),
    Factor(
        'noise',
        'the call’s own noise, or its reference’s; then also the reference’s own changes',
        (
            *along('cache.noise', 'fresh', 'shared'),
            Point('shared, reference', {'cache.unselected': 'reference', **_SHARED}),
        ),
    ),
    Factor(
        'library',
        'recorded reference episodes',
        tuple(Point(str(count), references=count) for count in (5, 10, 20, 40)),
    ),
    Factor(
        'denoise_steps',
        'all steps computed: the Context Cache alone, with fewer steps',
        tuple(
            Point(
                str(steps),
                {'engine.denoise_steps': steps, 'cache.anchors': tuple(range(steps))},
            )
            for steps in (3, 5, DENSE_STEPS)
        ),
    ),
    Factor(
        'fewer_steps',
        'no caches, only fewer denoise steps',
        tuple(
            Point(
                str(steps),
                {
                    'cache.enabled': False,
                    'engine.denoise_steps': steps,
                    'cache.anchors': (0,),
                },
                references=0,
            )
            for steps in (1, 2, 3, 4, 6)
        ),
    ),
    Factor(
        'preset',
        'named settings',
        tuple(Point(name, values) for name, values in PRESETS.items()),
    ),
)


@dataclass(frozen=True)
class Setting:
    """One way to run the policy, under the name of the first factor that has it.

    values: what differs from the defaults; references as in Point, but known.
    """

    name: str
    values: Mapping[str, Any]
    references: int


@dataclass(frozen=True)
class Plan:
    """settings: by name, the default first. factors: factor name -> label -> setting name.

    descriptions: of the factors, by name.
    """

    settings: Mapping[str, Setting]
    factors: Mapping[str, Mapping[str, str]]
    descriptions: Mapping[str, str]


def find_factors(text: str) -> list[Factor]:
    """The factors of a comma-separated list, or of ``all``; ConfigError for an unknown one."""
    known = {factor.name: factor for factor in FACTORS}
    names = list(dict.fromkeys(name.strip() for name in text.split(',')))
    if names == [ALL]:
        return list(FACTORS)
    for name in names:
        if name not in known:
            raise ConfigError(
                f'--factors: found {name!r}{hint(name, known)}, expected names of '
                f'{", ".join(known)}, joined by commas, or {ALL}'
            )
    return [known[name] for name in names]


def plan(factors: Sequence[Factor], references: int) -> Plan:
    """Every setting once, however many factors have it; references: of the default."""
    settings = {DEFAULT: Setting(DEFAULT, {}, references)}
    names = {_identity(setting): setting.name for setting in settings.values()}
    labels: dict[str, dict[str, str]] = {}
    for factor in factors:
        labels[factor.name] = {}
        for point in factor.points:
            changed = {k: v for k, v in point.values.items() if v != _DEFAULTS[k]}
            count = references if point.references is None else point.references
            setting = Setting(f'{factor.name} {point.label}', changed, count)
            name = names.setdefault(_identity(setting), setting.name)
            settings.setdefault(name, setting)
            labels[factor.name][point.label] = name
    return Plan(settings, labels, {factor.name: factor.description for factor in factors})


def _identity(setting: Setting) -> tuple[Any, ...]:
    return setting.references, tuple(sorted(setting.values.items()))


def describe(factors: Sequence[Factor] = FACTORS) -> str:
    """One line per factor, for ``--help``."""
    return '\n'.join(f'  {factor.name:22}{factor.description}' for factor in factors)
