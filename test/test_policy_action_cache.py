"""The Action Cache in the whole policy: what it takes of a reference, and when it is off."""

import numpy as np
import pytest
import torch
from policy_support import NOISE, OPEN, infer_all, infer_dense, spy_on_runs

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import Mode, Reason

# The Context Cache recomputes all rows: what differs from dense is the Action Cache's.
ALL_ROWS = OPEN | {'cache.rho_p': 1.0}
FOLLOWING = {'cache.noise': 'shared', 'cache.unselected': 'reference'}


@pytest.fixture
def library(make_policy, record_episodes):
    """Two episodes recorded with the default anchors, 0, 2, 5 and 8."""
    library = Library()
    record_episodes(make_policy(OPEN, library=library))
    return library


@pytest.fixture
def make(make_policy, library):
    """make({'cache.rho_n': 0.5}): a policy over these episodes, ready to serve."""

    def make(values):
        policy = make_policy(ALL_ROWS | values, library=library)
        assert policy.drain(20)
        return policy

    return make


def test_steps_between_anchors_are_skipped_by_default(make, make_observation):
    policy = make({})
    runs = spy_on_runs(policy)
    call = policy.infer(make_observation(0, 30), noise=NOISE).provenance
    (_, plan, _), result = runs[0]
    assert (call.reason, call.rho_n, call.detail) == (Reason.CACHED, 0.0, '')
    assert (plan.action.skips, plan.action.anchors) == (True, (0, 3, 8))
    assert plan.action.masks is None and result.action_ffn is None


@pytest.mark.parametrize(
    ('values', 'masks', 'steps_ref', 'velocity'),
    [
        ({'cache.rho_n': 0.5}, True, False, False),
        ({'cache.rho_n': 0.5, 'cache.mask_source': 'reference'}, True, False, False),
        ({'cache.rho_n': 0.5, 'cache.mask_source': 'anchor'}, False, False, False),
        (FOLLOWING | {'cache.rho_n': 0.5}, True, True, True),
        (FOLLOWING | {'cache.rho_n': 0.0}, False, True, True),
    ],
    ids=['both', 'reference', 'anchor', 'following neurons', 'following steps'],
)
def test_a_plan_takes_of_the_entry_what_its_rules_need(
    make, make_observation, values, masks, steps_ref, velocity
):
    policy = make(values)
    runs = spy_on_runs(policy)
    call = policy.infer(make_observation(0, 30)).provenance
    action = runs[0][0][1].action
    assert (call.reason, call.rho_n) == (Reason.CACHED, values['cache.rho_n'])
    assert (action.masks is not None) == masks
    assert (action.steps_ref is not None) == steps_ref
    assert (action.velocity is not None) == velocity
    assert (runs[0][1].action_ffn is not None) == (call.rho_n > 0)


@pytest.mark.parametrize(
    ('values', 'what'),
    [
        (
            {'cache.anchors': (0, 5)},
            'anchors [0, 3, 8] of 10 steps and score delta, expected [0, 5] of',
        ),
        ({'engine.denoise_steps': 12}, 'of 10 steps and score delta, expected [0, 3, 8] of 12'),
    ],
    ids=['anchors', 'steps'],
)
def test_masks_recorded_otherwise_turn_the_action_cache_off(make, make_observation, values, what):
    policy = make(values | {'cache.rho_n': 0.5})
    chunk = policy.infer(make_observation(0, 30), noise=NOISE)
    call = chunk.provenance
    assert call.reason is Reason.CACHED and call.rho_n is None
    assert np.array_equal(chunk.actions, infer_dense(policy, make_observation(0, 30)))
    assert call.detail.startswith('Action Cache off: ') and what in call.detail
    assert call.detail.endswith('refresh the library')


@pytest.mark.parametrize('values', [{'cache.rho_n': 0.5, 'cache.mask_source': 'anchor'}, {}])
def test_what_needs_nothing_recorded_works_with_any_anchors(make, make_observation, values):
    policy = make({'cache.anchors': (0, 3, 4)} | values)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.rho_n, call.detail) == (values.get('cache.rho_n', 0.0), '')


def test_shared_noise_is_the_reference_s_in_cached_calls(make, make_observation, library):
    policy = make({'cache.noise': 'shared'})
    runs = spy_on_runs(policy)
    one = policy.infer(make_observation(0, 30), noise=NOISE)
    two = policy.infer(make_observation(0, 30), noise=-NOISE)
    assert np.array_equal(one.actions, two.actions)
    entries = {entry.id: entry for episode in library for entry in episode.entries}
    served = entries[one.provenance.reference_id]
    assert np.array_equal(runs[0][1].noise, served.noise)


def test_fresh_noise_is_the_given_one(make, make_observation):
    policy = make({})
    runs = spy_on_runs(policy)
    policy.infer(make_observation(0, 30), noise=NOISE)
    assert np.array_equal(runs[0][1].noise, NOISE)


def test_a_dense_call_has_the_given_noise_also_where_noise_is_shared(make, make_observation):
    policy = make({'cache.noise': 'shared'})
    for call, expected in ((0, Reason.CACHED), (77, Reason.FALLBACK_SIMILARITY)):
        policy.tune(similarity_threshold=0.5)
        chunk = policy.infer(make_observation(call, 30), noise=NOISE)
        assert chunk.provenance.reason is expected
    assert np.array_equal(chunk.actions, infer_dense(policy, make_observation(77, 30)))


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        (
            {'cache.error_budget': 1e-9, 'cache.rho_p': 0.2, 'cache.drift_fence': False},
            Reason.OVER_BUDGET,
        ),
        ({'cache.drift_quantile': 0.5, 'cache.rho_p': 0.2}, Reason.FALLBACK_DRIFT),
    ],
    ids=['guard', 'fence'],
)
def test_a_call_that_becomes_dense_has_the_given_noise(make, make_observation, values, expected):
    policy = make({'cache.noise': 'shared', 'cache.drift_slack': 1.0} | values)
    observation = make_observation(0, 200 if expected is Reason.FALLBACK_DRIFT else 30)
    chunk = policy.infer(observation, noise=NOISE)
    assert chunk.provenance.reason is expected
    assert np.array_equal(chunk.actions, infer_dense(policy, observation))


@pytest.mark.parametrize('rho_n', [0.0, 0.25])
def test_a_call_seen_before_is_repeated_by_following_its_own_reference(
    make, make_observation, library, rho_n
):
    """Same observation, shared noise: the reference's own actions, whatever is left out."""
    policy = make(FOLLOWING | {'cache.rho_n': rho_n})
    runs = spy_on_runs(policy)
    call = policy.infer(make_observation(0, 1)).provenance
    entries = {entry.id: entry for episode in library for entry in episode.entries}
    reference = entries[call.reference_id]
    assert call.rho_n == rho_n and call.reference_id.endswith('/0')
    # Velocities are kept in half precision, the neurons' changes are not.
    tolerance = 5e-6 if rho_n else 2e-3
    np.testing.assert_allclose(runs[0][1].normalised, reference.actions, atol=tolerance)


def test_rho_n_tuned_up_finds_the_step_states_it_follows(make, make_observation):
    policy = make(FOLLOWING | {'cache.rho_n': 0.0})
    infer_all(policy, make_observation, calls=1)
    policy.tune(rho_n=0.5)
    runs = spy_on_runs(policy)
    assert policy.infer(make_observation(0, 30)).provenance.rho_n == 0.5
    assert runs[0][0][1].action.steps_ref is not None


@pytest.mark.parametrize(
    ('values', 'rho_n'),
    [
        ({}, 0.0),
        ({'cache.rho_n': 0.3, 'cache.mask_source': 'anchor'}, 0.3125),
        ({'cache.rho_n': 0.3}, None),
        (FOLLOWING, None),
    ],
    ids=['skipped', 'own masks', 'reference masks', 'following'],
)
def test_calls_without_a_reference_keep_what_needs_none(
    make_policy, make_observation, values, rho_n
):
    policy = make_policy({'cache.without_reference': 'anchors'} | values)
    runs = spy_on_runs(policy)
    chunk = policy.infer(make_observation(), noise=NOISE)
    call = chunk.provenance
    assert (call.reason, call.mode) == (Reason.NO_REFERENCE, Mode.DENSE)
    assert (call.rho_n, call.rho_p, call.drift) == (rho_n, None, None)
    assert not runs[0][1].reused
    dense = infer_dense(policy, make_observation())
    assert np.array_equal(chunk.actions, dense) == (rho_n is None)


def test_recording_calls_compute_every_step_whatever_the_settings(make_policy, make_observation):
    policy = make_policy({'cache.without_reference': 'anchors', 'library.record': True})
    chunk = policy.infer(make_observation(), noise=NOISE)
    assert chunk.provenance.rho_n is None
    assert np.array_equal(chunk.actions, infer_dense(policy, make_observation()))


def test_following_a_reference_needs_its_noise(make_policy):
    expected = 'found reference with cache.noise fresh.* set cache.noise to shared, or unselected'
    with pytest.raises(ConfigError, match=expected):
        make_policy({'cache.unselected': 'reference'})


@pytest.mark.parametrize('anchors', [(), (1, 4), (0, 4, 4), (0, 5, 3), (0, 10)])
def test_impossible_anchors_are_refused_before_the_first_call(make_policy, anchors):
    expected = r'cache\.anchors: found .* below 10 \(engine\.denoise_steps\); give the steps'
    with pytest.raises(ConfigError, match=expected):
        make_policy({'cache.anchors': anchors})


def test_anchors_beyond_fewer_steps_are_refused(make_policy):
    with pytest.raises(ConfigError, match=r'found \[0, 3, 8\], expected .* below 6'):
        make_policy({'engine.denoise_steps': 6})
    make_policy({'engine.denoise_steps': 6, 'cache.anchors': (0, 2, 5)})


def test_seeded_calls_are_the_same_in_every_run(make, make_observation):
    drawn = []
    for _ in range(2):
        policy = make({'cache.rho_n': 0.25})
        torch.manual_seed(3)
        drawn.append(policy.infer(make_observation(0, 30)).actions)
    assert np.array_equal(*drawn)
