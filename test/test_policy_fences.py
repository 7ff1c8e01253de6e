"""Fences and latches of the whole policy: what is no repetition is computed densely."""

import dataclasses

import numpy as np
from policy_support import OPEN, infer_all

from rmuscle_ros.types import Mode, Reason


def test_similarity_fence_latches_until_reset(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'cache.similarity_threshold': 0.5})
    record_episodes(policy)
    assert infer_all(policy, make_observation, calls=1)[0].reason is Reason.CACHED
    strange = policy.infer(make_observation(77)).provenance
    assert strange.reason is Reason.FALLBACK_SIMILARITY and strange.similarity < 0.5
    assert policy.status().window.pending == 0
    again = infer_all(policy, make_observation, calls=2)
    assert [call.reason for call in again] == [Reason.FALLBACK_SIMILARITY] * 2
    assert policy.status().latched is Reason.FALLBACK_SIMILARITY
    policy.reset()
    assert policy.drain(20)
    assert policy.status().latched is None
    assert infer_all(policy, make_observation, calls=1)[0].reason is Reason.CACHED


def test_a_lost_camera_does_not_unlatch(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'cache.similarity_threshold': 0.5})
    record_episodes(policy)
    policy.infer(make_observation(77))
    policy.infer(make_observation(0, 30, cameras=('cam_high', 'cam_left_wrist')))
    assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.FALLBACK_SIMILARITY


def test_covered_camera_is_dense_within_one_call(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'cache.drift_slack': 1.5})
    record_episodes(policy, episodes=3, calls=4, first_jitter=28)
    normal = infer_all(policy, make_observation, calls=2)
    assert [call.reason for call in normal] == [Reason.CACHED] * 2
    seen = make_observation(2, 30)
    covered = dataclasses.replace(
        seen, images=dict(seen.images) | {'cam_high': np.zeros((36, 36, 3), np.uint8)}
    )
    trips = [policy.infer(covered).provenance for _ in range(2)]
    assert all(trip.reason is Reason.FALLBACK_DRIFT for trip in trips)
    assert all(trip.mode is Mode.DENSE and 'drift' in trip.detail for trip in trips)
    assert trips[0].drift > 1 > max(call.drift for call in normal)
    assert len(policy.status().drift_limits) == 3
    assert policy.status().latched is None
    policy.infer(covered)
    assert policy.status().latched is Reason.FALLBACK_DRIFT
    assert policy.infer(make_observation(3, 30)).provenance.reason is Reason.FALLBACK_DRIFT


def test_a_normal_call_between_trips_keeps_the_episode_cached(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN | {'cache.drift_slack': 1.5})
    record_episodes(policy, episodes=3, calls=4, first_jitter=28)
    covered = dataclasses.replace(
        make_observation(0, 30),
        images=dict.fromkeys(policy.info.cameras, np.zeros((36, 36, 3), np.uint8)),
    )
    infer_all(policy, make_observation, calls=1)
    for _ in range(3):
        policy.infer(covered)
        policy.infer(covered)
        assert policy.drain(20)
        assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.CACHED


def test_one_reference_episode_is_not_enough_for_the_drift_fence(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)
    record_episodes(policy, episodes=1)
    call = policy.infer(make_observation(0, 30)).provenance
    assert call.reason is Reason.NOT_CALIBRATED and 'two reference episodes' in call.detail


def test_a_similarity_that_is_not_a_number_does_not_pass_the_fence(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)
    record_episodes(policy)
    memory = policy._memory
    episode = next(iter(memory.library))
    match = memory.match(np.full_like(episode.entries[0].key, np.nan), episode.task)
    assert match.reason is Reason.FALLBACK_SIMILARITY
