"""Variants run what the engine runs, on the call's own noise or, where they need it, another."""

import dataclasses
import types

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.engine.plans import CachedPlan
from rmuscle_ros.eval.sweep import reuse
from rmuscle_ros.eval.sweep.reuse import Comparison, State, collect, work
from rmuscle_ros.eval.sweep.variants import (
    FEWER,
    MASKED,
    RANDOM,
    SKIPPED,
    Variant,
    variants,
)
from rmuscle_ros.refresh import record_again
from rmuscle_ros.rollout import Rollout

ANCHORS = (0, 3, 7)
MASK = Variant(MASKED, 10, ANCHORS, 0.25, 'hold', 'reference', 'contribution')
NOISE = np.random.default_rng(1).normal(size=(7, 14)).astype(np.float32)


@pytest.fixture
def entry(make_policy, record_episodes):
    policy = make_policy()
    record_episodes(policy, episodes=1)
    return next(iter(policy._memory.library)).entries[1]


@pytest.fixture
def state(make_inputs, entry):
    return State(0, make_inputs(1, jitter=9), NOISE, entry, 0.9)


def errors(engine, state, *chosen):
    made = {str(number): variant for number, variant in enumerate(chosen)}
    return list(Comparison(engine, made).errors(state).values())


@pytest.mark.parametrize(
    'variant',
    [
        MASK,
        dataclasses.replace(MASK, score='delta', unselected='extrapolate', mask_source='both'),
        dataclasses.replace(MASK, mask_source='anchor'),
        dataclasses.replace(MASK, unselected='reference'),
        Variant(SKIPPED, 10, ANCHORS, unselected='extrapolate'),
        Variant(SKIPPED, 10, ANCHORS, unselected='reference'),
    ],
    ids=lambda variant: variant.name,
)
def test_a_variant_is_what_the_engine_computes_with_an_exact_prefill(engine, state, variant):
    entry = record_again(engine, state.entry, ANCHORS, variant.score or 'delta')
    expanded = engine.expand(entry.inputs, noise=entry.noise)
    plan = ActionPlan(
        anchors=ANCHORS,
        rho_n=variant.rho_n or 0.0,
        unselected=variant.unselected,
        mask_source=variant.mask_source or 'reference',
        score=variant.score or 'delta',
        masks=entry.masks,
        velocity=torch.from_numpy(entry.velocity).float() if variant.shared else None,
        steps_ref=expanded.steps if variant.shared and variant.rho_n else None,
    )
    noise = entry.noise if variant.shared else NOISE
    observed = engine.observe(state.inputs)
    dense = engine.run(observed, noise=noise).normalised
    reused = engine.run(observed, CachedPlan((expanded,), 1.0, plan), noise).normalised
    expected = float(np.abs(reused - dense).mean())
    assert expected > 0
    assert errors(engine, state, variant) == [pytest.approx(expected, rel=1e-6)]


def test_computing_everything_has_no_error_and_more_steps_have_less(engine, state):
    everything = Variant(SKIPPED, 10, tuple(range(10)), unselected='hold')
    ten = Variant(FEWER, 10, tuple(range(10)))
    found = errors(engine, state, everything, ten, *(Variant(FEWER, n, ()) for n in (8, 5, 2)))
    assert found[:2] == [0.0, 0.0]
    assert 0 < found[2] < found[3] < found[4]


def test_a_reference_that_is_the_call_itself_predicts_every_skipped_step(engine, state):
    own = dataclasses.replace(state, inputs=state.entry.inputs)
    skip = Variant(SKIPPED, 10, ANCHORS, unselected='reference')
    held = dataclasses.replace(skip, unselected='hold')
    predicted, kept = errors(engine, own, skip, held)
    # Velocities are stored as float16.
    assert predicted < 1e-3 < kept


def test_work_counts_neurons_in_dense_steps():
    assert work(Variant(FEWER, 6, tuple(range(6)))) == 6
    assert work(Variant(SKIPPED, 10, ANCHORS, unselected='hold')) == 3
    assert work(MASK) == 3 + 7 * 0.25
    # Masks come in sixteenths.
    assert work(dataclasses.replace(MASK, rho_n=0.26)) == 3 + 7 * 5 / 16


def test_random_masks_hold_the_same_share_and_stay_the_same(engine, state):
    chance = Variant(RANDOM, 10, ANCHORS, 0.25, 'hold')
    comparison = Comparison(engine, {})
    masks = reuse.random_masks(comparison._down_norm, chance, state.entry)
    again = reuse.random_masks(comparison._down_norm, chance, state.entry)
    assert np.array_equal(masks.levels, again.levels)
    site = masks.sites[0]
    assert len(masks.neurons(1, site, 0.25)) == 22
    assert not torch.equal(masks.neurons(0, site, 0.25), masks.neurons(1, site, 0.25))


def test_every_variant_of_the_table_runs(engine, state):
    found = Comparison(engine, variants()).errors(state)
    assert set(found) == set(variants())
    assert all(np.isfinite(error) and error > 0 for error in found.values())


def test_states_come_with_the_best_entry_of_the_window(
    engine, make_policy, record_episodes, make_observation, monkeypatch
):
    policy = make_policy()
    record_episodes(policy, episodes=2, calls=5)
    episodes = list(policy._memory.library)

    def roll_out(actor, station, seed, on_call):
        for call in range(5):
            chunk = types.SimpleNamespace(provenance=types.SimpleNamespace(call=call))
            on_call(make_observation(call, jitter=2), NOISE + call, chunk)
        # Resembles nothing: no reference would serve it.
        chunk = types.SimpleNamespace(provenance=types.SimpleNamespace(call=5))
        on_call(make_observation(77), NOISE, chunk)
        return Rollout('stack', seed, True, 4, 75, 6)

    monkeypatch.setattr(reuse, 'roll_out', roll_out)
    found = collect(None, None, 1, engine, episodes, 10)
    assert [state.call for state in found] == [0, 1, 2, 3, 4]
    # The second episode was recorded with the very jitter that these observations have.
    assert [state.entry.id for state in found] == [entry.id for entry in episodes[1].entries]
    assert [state.noise[0, 0] for state in found] == [NOISE[0, 0] + n for n in range(5)]
    few = collect(None, None, 1, engine, episodes, 3)
    assert [state.call for state in few] == [0, 2, 4]
