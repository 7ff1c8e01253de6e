"""The figures of a sweep: what its JSON says of settings, factors and Action Cache variants."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rmuscle_ros.eval import comparison
from rmuscle_ros.eval.sweep.factors import Plan, Setting
from rmuscle_ros.eval.sweep.grid import Grid, StateGrid
from rmuscle_ros.eval.sweep.reuse import work
from rmuscle_ros.eval.sweep.variants import (
    DEFAULT_VARIANT,
    MASKED,
    PAPER_VARIANT,
    RANDOM,
    Variant,
)
from rmuscle_ros.eval.trials import Trial
from rmuscle_ros.statistics import largest, mean, median, quantile

SCHEMA = 1
# (option, value, what it is compared with)
EFFECTS = (
    ('family', MASKED, RANDOM),
    ('score', 'delta', 'contribution'),
    ('mask_source', 'anchor', 'reference'),
    ('mask_source', 'both', 'reference'),
    ('unselected', 'extrapolate', 'hold'),
    ('unselected', 'reference', 'extrapolate'),
)
Point = tuple[float, float]


def shares_noise(setting: Setting) -> bool:
    """Whether its cached calls take their reference's noise."""
    return setting.values.get('cache.noise') == 'shared'


def front(points: Mapping[str, Point]) -> list[str]:
    """The names that no other point dominates (both at most as large, one smaller), by x."""

    def dominated(name: str) -> bool:
        x, y = points[name]
        return any(a <= x and b <= y and (a, b) != (x, y) for a, b in points.values())

    return sorted((name for name in points if not dominated(name)), key=lambda n: points[n])


def closed_loop(trials: Grid, plan: Plan) -> dict[str, Any]:
    """Part A: every setting's figures over the scenes that all have ended, and the factors."""
    scenes = trials.scenes()
    modes = comparison.summarise(scenes, trials.settings)
    for name, mode in modes.items():
        setting = trials.settings[name]
        mode['values'] = dict(setting.values)
        mode['references'] = setting.references
        mode['shared_noise'] = shares_noise(setting)
        mode['cached_share'] = mode['calls']['cached'] / sum(mode['calls'].values())
        mode['recomputed'] = mean(recomputed(scene[name]) for scene in scenes)
    own_noise = {
        name: at
        for name, mode in modes.items()
        if not mode['shared_noise'] and (at := comparison.point(mode)) is not None
    }
    return {
        'scenes': len(scenes),
        'spread': comparison.spread(trials.spread),
        'modes': modes,
        'factors': {
            name: {'description': plan.descriptions[name], 'points': dict(points)}
            for name, points in plan.factors.items()
        },
        'front': front(own_noise),
    }


def recomputed(trial: Trial) -> float | None:
    """Mean share of the visual rows computed per call; a dense call computes all."""
    shares = [call.provenance.rho_p for call in trial.calls]
    return mean(1.0 if share is None else share for share in shares)


def action_cache(states: StateGrid) -> dict[str, Any]:
    """Part B: work and error of every variant, the fronts, and what each option does."""
    rows = [state for seed in sorted(states.rows) for state in states.rows[seed]]
    found = {
        name: {
            'family': variant.family,
            'settings': variant.settings(),
            'shared_noise': variant.shared,
            'work': work(variant),
            'error': _tail([row['errors'][name] for row in rows]),
        }
        for name, variant in states.variants.items()
    }
    own = {name: figure for name, figure in found.items() if not figure['shared_noise']}
    return {
        'scenes': len(states.rows),
        'states': len(rows),
        'similarity_p50': median(row['similarity'] for row in rows),
        'default': DEFAULT_VARIANT.name,
        'paper': PAPER_VARIANT.name,
        'variants': found,
        'front': front(_points(own, 'mean')),
        'front_p95': front(_points(own, 'p95')),
        'effects': list(effects(states.variants, found)),
    }


def effects(
    variants: Mapping[str, Variant], figures: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """What one option does to the error, over the pairs of variants that differ in it alone.

    ratio: geometric mean of the pairs' ratios of mean errors; below 1, ``value`` is the better
    one. ratio_p95: the same of the 95th percentiles. better: in how many of how many pairs.
    """
    for option, value, against in EFFECTS:
        pairs = [
            (figures[name]['error'], figures[twin.name]['error'])
            for name, variant in variants.items()
            if getattr(variant, option) == value
            and (twin := _twin(variant, option, against)).name in figures
        ]
        if pairs:
            yield {
                'option': option,
                'value': value,
                'against': against,
                'ratio': _mean_ratio([(ours['mean'], theirs['mean']) for ours, theirs in pairs]),
                'ratio_p95': _mean_ratio([(ours['p95'], theirs['p95']) for ours, theirs in pairs]),
                'better': [
                    sum(ours['mean'] < theirs['mean'] for ours, theirs in pairs),
                    len(pairs),
                ],
            }


def _twin(variant: Variant, option: str, value: Any) -> Variant:
    """The variant that differs in one option alone; random neurons have no source and score."""
    if value == RANDOM:
        return dataclasses.replace(variant, family=RANDOM, mask_source=None, score=None)
    return dataclasses.replace(variant, **{option: value})


def _mean_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Geometric mean of first / second; None unless every value is there and positive."""
    logs = [math.log(a / b) for a, b in pairs if a and b]
    return math.exp(math.fsum(logs) / len(pairs)) if logs and len(logs) == len(pairs) else None


def _points(figures: Mapping[str, Any], key: str) -> dict[str, Point]:
    return {
        name: (figure['work'], figure['error'][key])
        for name, figure in figures.items()
        if figure['error'][key] is not None
    }


def _tail(errors: Sequence[float]) -> dict[str, Any]:
    return {
        'mean': mean(errors),
        'p50': median(errors),
        'p95': quantile(errors, 0.95),
        'max': largest(errors),
    }
