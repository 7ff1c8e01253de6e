"""Fronts, shares and effects of planted figures."""

import dataclasses
import types

import numpy as np
import pytest
from fake_sweep import SAME, make_states, make_trials
from fake_trials import make_trial

from rmuscle_ros.eval.sweep import figures
from rmuscle_ros.eval.sweep.factors import DEFAULT, Factor, Point
from rmuscle_ros.eval.sweep.grid import StateGrid
from rmuscle_ros.eval.sweep.journal import Journal
from rmuscle_ros.eval.sweep.variants import MASKED, RANDOM, SKIPPED, Variant

FACTOR = Factor(
    'budget',
    'planted',
    (
        Point('small', {'cache.error_budget': 0.003}),
        Point('large', {'cache.error_budget': 0.3}),
        Point('useless', {'cache.error_budget': 0.4}),
        Point('shared', {'cache.noise': 'shared'}),
    ),
)
# setting -> milliseconds and error of each of its calls
PLANTED = {
    'dense': (80.0, None),
    DEFAULT: (50.0, 0.02),
    'budget small': (60.0, 0.01),
    'budget large': (40.0, 0.04),
    'budget useless': (61.0, 0.04),
    'budget shared': (30.0, 0.001),
}


def timed(call, total_ms, error, rho_p=None):
    provenance = call.provenance
    times = dataclasses.replace(provenance.times, total_ms=total_ms)
    provenance = dataclasses.replace(provenance, times=times, rho_p=rho_p)
    return dataclasses.replace(call, provenance=provenance, error=error)


def planted_loop():
    trials, made = make_trials([FACTOR], scenes=0)
    trials._seeds = [1, 2]
    rng = np.random.default_rng(0)
    for name, (total_ms, error) in PLANTED.items():
        for seed in (1, 2):
            trial = make_trial(rng, 'dense', seed, success=True)
            calls = tuple(timed(call, total_ms, error) for call in trial.calls)
            trials.put(name, seed, dataclasses.replace(trial, calls=calls), [])
    return figures.closed_loop(trials, made)


@pytest.mark.parametrize(
    ('points', 'expected'),
    [
        ({'a': (1, 9), 'b': (2, 5), 'c': (3, 7), 'd': (4, 1)}, ['a', 'b', 'd']),
        ({'b': (2, 5), 'a': (2, 4)}, ['a']),
        ({'a': (2, 5), 'b': (2, 5)}, ['a', 'b']),
        ({'slow': (9, 1), 'fast': (1, 1)}, ['fast']),
        ({}, []),
    ],
)
def test_the_front_is_what_nothing_dominates(points, expected):
    assert figures.front(points) == expected


def test_planted_settings_give_the_planted_front():
    """Shared noise is another policy: it is not on the front, and takes nobody off it."""
    found = planted_loop()
    assert found['front'] == ['budget large', DEFAULT, 'budget small', 'dense']
    assert found['modes']['budget shared']['shared_noise'] is True
    assert found['factors']['budget']['points'] == {
        'small': 'budget small',
        'large': 'budget large',
        'useless': 'budget useless',
        'shared': 'budget shared',
    }
    assert found['modes'][DEFAULT]['latency_ms']['mean'] == pytest.approx(50)
    assert found['scenes'] == 2


def test_a_dense_call_computes_every_row():
    trial = make_trial(np.random.default_rng(0), 'dense', 1, success=True)
    shares = [0.2, None, 0.6, None, None, 1.0, 0.2]
    calls = [timed(c, 50.0, 0.0, rho_p=s) for c, s in zip(trial.calls, shares, strict=True)]
    mixed = dataclasses.replace(trial, calls=tuple(calls))
    assert figures.recomputed(mixed) == pytest.approx((0.2 + 1 + 0.6 + 1 + 1 + 1 + 0.2) / 7)


def planted_reuse(errors):
    """errors: variant -> error in every state."""
    grid = StateGrid({v.name: v for v in errors}, range(2), Journal(None), SAME)
    values = {variant.name: error for variant, error in errors.items()}
    comparison = types.SimpleNamespace(errors=lambda state: values)
    for seed in range(2):
        grid.put(seed, [types.SimpleNamespace(call=0, similarity=0.9)] * 20, comparison)
    return figures.action_cache(grid)


def test_planted_variants_give_the_planted_front_and_effects(monkeypatch):
    skip = Variant(SKIPPED, 10, (0, 5), unselected='hold')
    mask = Variant(MASKED, 10, (0, 5), 0.5, 'hold', 'reference', 'contribution')
    delta = dataclasses.replace(mask, score='delta')
    other = dataclasses.replace(mask, unselected='extrapolate')
    other_delta = dataclasses.replace(other, score='delta')
    chance = Variant(RANDOM, 10, (0, 5), 0.5, 'hold')
    shared = dataclasses.replace(skip, unselected='reference')
    found = planted_reuse(
        {skip: 0.1, mask: 0.04, delta: 0.02, other: 0.08, other_delta: 0.1, chance: 0.16,
         shared: 0.001}
    )  # fmt: skip
    assert found['front'] == found['front_p95'] == [skip.name, delta.name]
    assert found['variants'][shared.name]['shared_noise'] is True
    assert found['variants'][mask.name]['work'] == 2 + 8 * 0.5
    assert found['variants'][mask.name]['error'] == pytest.approx(
        {'mean': 0.04, 'p50': 0.04, 'p95': 0.04, 'max': 0.04}
    )
    effects = {(e['option'], e['value']): e for e in found['effects']}
    score = effects['score', 'delta']
    assert score['ratio'] == pytest.approx((0.5 * 1.25) ** 0.5)
    assert score['better'] == [1, 2]
    # Both the masked and the skipped variant have a twin that extrapolates or not: two pairs.
    assert effects['unselected', 'extrapolate']['better'] == [0, 2]
    assert effects['unselected', 'extrapolate']['ratio'] == pytest.approx((2 * 5) ** 0.5)
    assert effects['family', MASKED]['ratio'] == pytest.approx((0.25 * 0.125) ** 0.5)
    assert ('mask_source', 'anchor') not in effects


def test_every_state_counts_in_the_tail():
    found = figures.action_cache(make_states(scenes=7, states=3))
    assert found['states'] == 21 and found['scenes'] == 7
    errors = found['variants'][found['paper']]['error']
    assert errors['p50'] < errors['p95'] < errors['max']
    few = figures.action_cache(make_states(scenes=1, states=3))
    assert few['variants'][few['paper']]['error']['p95'] is None
