"""The guard in the whole policy: as many rows as the error budget asks for, or a dense call."""

import threading

import numpy as np
import pytest
from policy_support import NOISE, OPEN, infer_dense, spy_on_runs

from rmuscle_ros.cache.guard import residual
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.types import Mode, Reason

TINY, HUGE = 1e-9, 1e9


@pytest.fixture
def policy(make_policy, record_episodes):
    policy = make_policy(OPEN | {'cache.error_budget': HUGE})
    record_episodes(policy)
    return policy


def test_a_tiny_budget_makes_calls_dense_bit_by_bit(policy, make_observation):
    policy.tune(error_budget=TINY)
    observation = make_observation(0, 30)
    chunk = policy.infer(observation, noise=NOISE)
    call = chunk.provenance
    assert (call.mode, call.reason) == (Mode.DENSE, Reason.OVER_BUDGET)
    assert call.rho_p is None and call.rho_n is None and call.reference_id is None
    assert call.error_estimate > TINY
    assert call.detail == f'estimated error {call.error_estimate:.3f}, budget 1e-09'
    assert call.drift < 1, 'the drift fence had nothing against it'
    assert np.array_equal(chunk.actions, infer_dense(policy, observation))
    assert policy.status().calls['fallback'] == 1


def test_calls_over_budget_never_end_caching_for_the_episode(policy, make_observation):
    policy.tune(error_budget=TINY)
    calls = [policy.infer(make_observation(0, 30)).provenance for _ in range(5)]
    assert {call.reason for call in calls} == {Reason.OVER_BUDGET}
    assert policy.status().latched is None
    policy.tune(error_budget=HUGE)
    assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.CACHED


def test_over_budget_the_denoise_steps_stay_as_they_are_without_a_reference(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN | {'cache.without_reference': 'anchors'})
    record_episodes(policy)
    assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.CACHED
    policy.tune(error_budget=TINY)
    chunk = policy.infer(make_observation(0, 30), noise=NOISE)
    call = chunk.provenance
    assert (call.reason, call.rho_p, call.rho_n) == (Reason.OVER_BUDGET, None, 0.0)
    alone = make_policy({'cache.without_reference': 'anchors'})
    expected = alone.infer(make_observation(0, 30), noise=NOISE)
    assert expected.provenance.reason is Reason.NO_REFERENCE
    assert np.array_equal(chunk.actions, expected.actions)


def test_a_huge_budget_recomputes_the_least_share(policy, make_observation):
    runs = spy_on_runs(policy)
    chunk = policy.infer(make_observation(0, 30), noise=NOISE)
    call = chunk.provenance
    assert (call.reason, call.rho_p) == (Reason.CACHED, 0.2)
    (_, result), slope = runs[0], policy.status().guard_slope
    expected = slope * residual(result.context.row_drift, 0.2)
    assert call.error_estimate == pytest.approx(expected, rel=1e-6)
    assert not np.array_equal(chunk.actions, infer_dense(policy, make_observation(0, 30)))


def test_a_budget_in_between_is_kept_with_a_share_in_between(policy, make_observation):
    runs = spy_on_runs(policy)
    policy.infer(make_observation(0, 30))
    drift, slope = runs[0][1].context.row_drift, policy.status().guard_slope
    estimates = {share: slope * residual(drift, share) for share in (0.2, 0.4, 0.6, 0.8)}
    for share, estimate in estimates.items():
        assert policy.drain(20)
        policy.tune(error_budget=estimate * 1.0001)
        policy.reset()
        assert policy.drain(20)
        call = policy.infer(make_observation(0, 30)).provenance
        assert (call.reason, call.rho_p) == (Reason.CACHED, share)
        assert call.error_estimate == pytest.approx(estimate, rel=1e-6)


def test_guard_and_budget_are_live(policy, make_observation):
    def infer():
        return policy.infer(make_observation(0, 30)).provenance

    assert infer().reason is Reason.CACHED
    policy.tune(error_budget=TINY)
    assert infer().reason is Reason.OVER_BUDGET
    policy.tune(guard=False)
    unguarded = infer()
    assert (unguarded.reason, unguarded.rho_p) == (Reason.CACHED, 0.2)
    assert unguarded.error_estimate is None
    policy.tune(guard=True)
    assert infer().reason is Reason.OVER_BUDGET
    policy.tune(error_budget=HUGE)
    assert infer().reason is Reason.CACHED


def test_a_call_that_trips_the_fence_has_no_estimate(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN | {'cache.drift_slack': 1.0, 'cache.drift_quantile': 0.5})
    record_episodes(policy)
    call = policy.infer(make_observation(0, 200)).provenance
    assert call.reason is Reason.FALLBACK_DRIFT
    assert call.error_estimate is None and call.rho_p is None


def test_the_guard_alone_needs_calibration_too(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'cache.drift_fence': False})
    record_episodes(policy, episodes=1)
    assert policy.status().guard_slope is None
    call = policy.infer(make_observation(0, 30)).provenance
    assert call.reason is Reason.NOT_CALIBRATED and 'two reference episodes' in call.detail
    policy.tune(guard=False)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.reason, call.error_estimate) == (Reason.CACHED, None)


def test_calls_are_dense_until_the_guard_is_calibrated(
    make_policy, make_observation, record_episodes, monkeypatch
):
    go, copy_errors = threading.Event(), EagerEngine.copy_errors

    def late(engine, inputs, noise, state, shares, before_site):
        while not go.wait(0.005):
            before_site()
        return copy_errors(engine, inputs, noise, state, shares, before_site)

    first = make_policy(OPEN)
    record_episodes(first)
    first._memory.library.pairs.clear()
    monkeypatch.setattr(EagerEngine, 'copy_errors', late)
    policy = make_policy(OPEN, library=first._memory.library)
    assert policy.status().guard_slope is None
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.reason, call.mode) == (Reason.NOT_CALIBRATED, Mode.DENSE)
    assert 'being calibrated' in call.detail and call.error_estimate is None
    go.set()
    assert policy.drain(20)
    assert policy.status().guard_slope > 0
    assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.CACHED


def test_the_slope_is_that_of_errors_measured_on_the_library(policy):
    memory, engine = policy._memory, policy._engine
    slopes = []
    for pair in memory.library.pairs.values():
        slopes += pair.slopes
    assert policy.status().guard_slope == pytest.approx(float(np.quantile(slopes, 0.9)))
    one, other = memory.library
    state = engine.expand(other.entries[1].inputs)
    entry = one.entries[1]
    copied = engine.copy_errors(entry.inputs, entry.noise, state, (0.4, 0.8))
    assert list(memory.library.pairs[entry.id].slopes) == pytest.approx(copied.slopes(), rel=1e-4)


def copies(policy, make_observation):
    """Two reference episodes with the same pictures."""
    policy.tune(enabled=False, record=True)
    policy.reset()
    for _ in range(2):
        for call in range(4):
            policy.infer(make_observation(call))
        policy.end_episode(True)
    policy.tune(enabled=True, record=False)
    policy.reset()
    assert policy.drain(20)


def test_references_that_are_copies_are_named_as_the_reason(make_policy, make_observation):
    policy = make_policy(OPEN)
    copies(policy, make_observation)
    call = policy.infer(make_observation()).provenance
    assert call.reason is Reason.NOT_CALIBRATED and 'copies of each other' in call.detail


def test_the_pictures_of_copies_pass_their_drift_fence(make_policy, make_observation):
    policy = make_policy(OPEN | {'cache.guard': False})
    copies(policy, make_observation)
    call = policy.infer(make_observation()).provenance
    assert call.reason is Reason.CACHED and call.drift == 0
    assert policy.drain(20)
    other = policy.infer(make_observation(1, 30)).provenance
    assert other.reason is Reason.FALLBACK_DRIFT and np.isfinite(other.drift)


def test_a_window_too_small_for_one_entry_is_named(make_policy, record_episodes, make_observation):
    policy = make_policy(OPEN | {'cache.window_mib': 0.0001})
    record_episodes(policy)
    policy.infer(make_observation(0, 30))
    assert policy.drain(20)
    call = policy.infer(make_observation(1, 30)).provenance
    assert call.reason is Reason.REFERENCE_NOT_READY and 'cache.window_mib (0.0001)' in call.detail
