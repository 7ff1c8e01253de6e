"""The policy as its callers see it: observations in, chunks with their provenance out."""

import dataclasses

import numpy as np
import pytest
from policy_support import NOISE, OPEN

from rmuscle_ros.errors import ConfigError, ObservationError, PolicyError
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import Mode, Reason


def test_without_references_calls_are_dense(make_policy, make_observation):
    policy = make_policy({'cache.without_reference': 'dense'})
    chunk = policy.infer(make_observation(stamp_s=7.5))
    provenance = chunk.provenance
    assert (provenance.mode, provenance.reason) == (Mode.DENSE, Reason.NO_REFERENCE)
    assert provenance.similarity is None and provenance.drift is None
    assert provenance.rho_p is None and provenance.reference_id is None
    assert provenance.rho_n is None and provenance.error_estimate is None
    assert chunk.stamp_s == provenance.observation_stamp_s == 7.5
    assert chunk.actions.shape == (7, 14) and chunk.actions.dtype == np.float32


def test_cached_agrees_with_dense_at_full_budget(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'cache.rho_p': 1.0, 'cache.rho_n': 1.0})
    record_episodes(policy)
    observation = make_observation(0, 30)
    cached = policy.infer(observation, noise=NOISE)
    policy.tune(enabled=False)
    dense = policy.infer(observation, noise=NOISE)
    assert (cached.provenance.mode, dense.provenance.mode) == (Mode.CACHED, Mode.DENSE)
    np.testing.assert_allclose(cached.actions, dense.actions, rtol=1e-5, atol=1e-5)


def test_noise_is_fresh_for_every_call(make_policy, make_observation):
    policy = make_policy()
    first, second = (policy.infer(make_observation()).actions for _ in range(2))
    assert not np.array_equal(first, second)


def test_another_instruction_model_or_camera_set_is_never_served(
    make_policy, make_observation, record_episodes
):
    library = Library()
    policy = make_policy(OPEN, library=library)
    record_episodes(policy)
    other = policy.infer(make_observation(0, 30, instruction='stack the cups!')).provenance
    assert other.reason is Reason.NO_REFERENCE
    fewer = policy.infer(make_observation(0, 30, cameras=('cam_high',))).provenance
    assert fewer.reason is Reason.NO_REFERENCE
    foreign = make_policy(OPEN, fingerprint='another', library=library)
    assert foreign.infer(make_observation(0, 30)).provenance.reason is Reason.NO_REFERENCE
    twin = make_policy(OPEN, library=library)
    assert twin.drain(20)
    assert twin.infer(make_observation(0, 30)).provenance.reason is Reason.CACHED


def test_the_reason_says_what_the_library_holds_instead(
    make_policy, make_observation, record_episodes
):
    policy = make_policy()
    record_episodes(policy)
    other = make_policy(fingerprint='another', library=policy._memory.library)
    detail = other.infer(make_observation()).provenance.detail
    assert detail.endswith(
        'the library has 2: 0 of another instruction, 2 of another model, 0 of other cameras'
    )


def test_a_new_instruction_ends_the_episode(make_policy, make_observation):
    policy = make_policy()
    policy.infer(make_observation())
    before = policy.status().episode
    policy.infer(make_observation(instruction='open the drawer'))
    assert policy.status().episode == before + 1


def test_a_bad_observation_leaves_the_episode_as_it_was(make_policy, make_observation):
    policy = make_policy()
    policy.infer(make_observation())
    good = make_observation()
    joints = dict(good.joints)
    del joints['follower_left_elbow']
    cases = {
        'joint follower_left_elbow missing': dataclasses.replace(good, joints=joints),
        'joint follower_left_waist: found a position that is not finite': dataclasses.replace(
            good, joints=dict(good.joints) | {'follower_left_waist': float('nan')}
        ),
        'joint follower_right_elbow: found a position that is not finite': dataclasses.replace(
            good, joints=dict(good.joints) | {'follower_right_elbow': float('inf')}
        ),
        'found 97 bytes, expected at most 96': dataclasses.replace(good, instruction='x' * 97),
        'at least one of cam_high': dataclasses.replace(good, images={}),
        'camera cam_top': dataclasses.replace(
            good, images=dict(good.images) | {'cam_top': good.images['cam_high']}
        ),
        'found float64': dataclasses.replace(good, images={'cam_high': np.zeros((36, 36, 3))}),
        'empty instruction': dataclasses.replace(good, instruction=' '),
        'instruction of type NoneType': dataclasses.replace(good, instruction=None),
        'cam_high: found list': dataclasses.replace(good, images={'cam_high': [[1]]}),
        'joint positions that are not numbers': dataclasses.replace(
            good, joints=dict(good.joints) | {'follower_left_waist': 'left'}
        ),
    }
    for message, bad in cases.items():
        with pytest.raises(ObservationError, match=message):
            policy.infer(bad)
    assert sum(policy.status().calls.values()) == 1


def test_pictures_of_another_size_are_resized(make_policy, make_observation):
    policy = make_policy()
    big = {camera: np.full((72, 96, 3), 90, np.uint8) for camera in policy.info.cameras}
    chunk = policy.infer(dataclasses.replace(make_observation(), images=big))
    assert np.isfinite(chunk.actions).all()


def test_warm_up_counts_nothing(make_policy):
    policy = make_policy()
    policy.warm_up()
    status = policy.status()
    assert sum(status.calls.values()) == 0 and status.last is None


def test_actions_that_are_not_finite_are_never_returned(make_policy, make_observation):
    policy = make_policy()
    policy._engine.model.action_out_proj.bias.data[3] = float('nan')
    with pytest.raises(PolicyError, match='found actions that are not finite'):
        policy.infer(make_observation())
    with pytest.raises(PolicyError, match='checkpoint are damaged'):
        policy.warm_up()


@pytest.mark.parametrize('value', [np.nan, np.inf, 'a'])
def test_noise_that_is_no_noise_is_not_blamed_on_the_weights(make_policy, make_observation, value):
    policy = make_policy()
    with pytest.raises(ConfigError, match=r'noise: found .*not finite numbers'):
        policy.infer(make_observation(), noise=np.full((7, 14), value))
    assert sum(policy.status().calls.values()) == 0
