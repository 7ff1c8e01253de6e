"""The policy as its callers see it: fences, latches, recording, tuning, the rebuild thread."""

import dataclasses
import time

import numpy as np
import pytest

from rmuscle_ros.errors import (
    ConfigError,
    LibraryError,
    ObservationError,
    PolicyError,
    RebuildError,
)
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import Mode, Reason

OPEN = {'cache.similarity_threshold': -1.0, 'cache.drift_slack': 10.0}


def infer_all(policy, make_observation, calls=4, jitter=30, **observation):
    out = []
    for call in range(calls):
        out.append(policy.infer(make_observation(call, jitter, **observation)).provenance)
        assert policy.drain(20)
    return out


def test_without_references_calls_are_dense(make_policy, make_observation):
    chunk = make_policy().infer(make_observation(stamp_s=7.5))
    provenance = chunk.provenance
    assert (provenance.mode, provenance.reason) == (Mode.DENSE, Reason.NO_REFERENCE)
    assert provenance.similarity is None and provenance.drift is None
    assert provenance.rho_p is None and provenance.reference_id is None
    assert chunk.stamp_s == provenance.observation_stamp_s == 7.5
    assert chunk.actions.shape == (7, 14) and chunk.actions.dtype == np.float32


def test_recorded_episodes_serve_later_ones(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN)
    ends = record_episodes(policy)
    assert [end.admitted for end in ends] == [True, True]
    assert ends[0].entries == 4
    calls = infer_all(policy, make_observation)
    assert [call.reason for call in calls] == [Reason.CACHED] * 4
    assert [call.reference_id.split('/')[1] for call in calls] == ['0', '1', '2', '3']
    assert all(call.rho_p == 0.4 and call.rho_n == 0.5 for call in calls)
    assert policy.status().calls['cached'] == 4


def test_cached_agrees_with_dense_at_full_budget(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'cache.rho_p': 1.0, 'cache.rho_n': 1.0})
    record_episodes(policy)
    observation = make_observation(0, 30)
    noise = np.random.default_rng(1).normal(size=(7, 14)).astype(np.float32)
    cached = policy.infer(observation, noise=noise)
    policy.tune(enabled=False)
    dense = policy.infer(observation, noise=noise)
    assert (cached.provenance.mode, dense.provenance.mode) == (Mode.CACHED, Mode.DENSE)
    np.testing.assert_allclose(cached.actions, dense.actions, atol=1e-6)


def test_noise_is_fresh_for_every_call(make_policy, make_observation):
    policy = make_policy()
    first, second = (policy.infer(make_observation()).actions for _ in range(2))
    assert not np.array_equal(first, second)


def test_similarity_fence_latches_until_reset(make_policy, make_observation, record_episodes):
    policy = make_policy({'cache.drift_slack': 10.0, 'cache.similarity_threshold': 0.5})
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
    policy = make_policy({'cache.similarity_threshold': 0.5, 'cache.drift_slack': 10.0})
    record_episodes(policy)
    policy.infer(make_observation(77))
    policy.infer(make_observation(0, 30, cameras=('cam_high', 'cam_left_wrist')))
    assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.FALLBACK_SIMILARITY


def test_covered_camera_is_dense_within_one_call(make_policy, make_observation, record_episodes):
    policy = make_policy({'cache.similarity_threshold': -1.0})
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
    policy = make_policy({'cache.similarity_threshold': -1.0})
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


def test_first_call_waits_for_nothing_but_is_ready_when_idle(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)
    record_episodes(policy)
    assert policy.status().window.entries == 2
    assert policy.infer(make_observation(0, 30)).provenance.reason is Reason.CACHED


def test_entries_that_are_not_expanded_yet_give_one_dense_call(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN | {'cache.window_mib': 0.0})
    record_episodes(policy)
    calls = infer_all(policy, make_observation, calls=2)
    assert [call.reason for call in calls] == [Reason.REFERENCE_NOT_READY] * 2
    assert policy.status().window.misses == 2
    assert policy.status().latched is None


def test_one_reference_episode_is_not_enough_for_the_drift_fence(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)
    record_episodes(policy, episodes=1)
    call = policy.infer(make_observation(0, 30)).provenance
    assert call.reason is Reason.NOT_CALIBRATED and 'two reference episodes' in call.detail


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


def test_a_new_instruction_ends_the_episode(make_policy, make_observation):
    policy = make_policy()
    policy.infer(make_observation())
    before = policy.status().episode
    policy.infer(make_observation(instruction='open the drawer'))
    assert policy.status().episode == before + 1


@pytest.mark.parametrize(
    ('admit', 'success', 'admitted'),
    [('success', True, True), ('success', False, False), ('all', False, True)],
)
def test_admission_rule(make_policy, make_observation, admit, success, admitted):
    policy = make_policy({'library.record': True, 'library.admit': admit})
    policy.infer(make_observation())
    end = policy.end_episode(success)
    assert end.admitted is admitted
    assert policy.status().library_episodes == int(admitted)


def test_reset_discards_what_was_recorded(make_policy, make_observation):
    policy = make_policy({'library.record': True, 'library.admit': 'all'})
    policy.infer(make_observation())
    policy.reset()
    end = policy.end_episode(True)
    assert not end.admitted and end.detail == 'no call was made'


def test_an_episode_with_a_cached_call_is_not_admitted(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN | {'library.record': True, 'library.admit': 'all'})
    record_episodes(policy)
    infer_all(policy, make_observation, calls=1)
    end = policy.end_episode(True)
    assert not end.admitted and 'CACHED' in end.detail


def test_recording_is_switched_with_the_next_episode(make_policy, make_observation):
    policy = make_policy()
    policy.tune(record=True)
    policy.infer(make_observation())
    assert not policy.end_episode(True).admitted
    policy.infer(make_observation())
    assert policy.end_episode(True).admitted


def test_library_survives_a_restart(make_policy, make_observation, record_episodes, tmp_path):
    values = OPEN | {'library.directory': str(tmp_path / 'library')}
    record_episodes(make_policy(values))
    again = make_policy(values, library=Library.load(tmp_path / 'library'))
    assert again.status().library_entries == 8
    assert again.drain(20)
    assert infer_all(again, make_observation, calls=1)[0].reason is Reason.CACHED


def test_masks_of_another_group_len_turn_the_action_cache_off(
    make_policy, make_observation, record_episodes
):
    library = Library()
    record_episodes(make_policy(OPEN, library=library))
    policy = make_policy(OPEN | {'cache.group_len': 2}, library=library)
    assert policy.drain(20)
    call = policy.infer(make_observation(0, 30)).provenance
    assert call.reason is Reason.CACHED and call.rho_n is None
    assert 'group_len 5' in call.detail


def test_tuning_takes_effect_with_the_next_call(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN)
    record_episodes(policy)
    policy.tune(rho_p=0.75, rho_n=0.3)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.rho_p, call.rho_n) == (0.75, 0.3125)
    with pytest.raises(ConfigError, match=r'cache.rho_p: found 1.5, expected a value from 0 to 1'):
        policy.tune(rho_p=1.5)
    with pytest.raises(ConfigError, match='group_len: cannot be tuned'):
        policy.tune(group_len=3)
    assert policy.drain(20)
    assert policy.infer(make_observation(1, 30)).provenance.rho_p == 0.75


def test_tuning_during_a_call_does_not_change_that_call(
    make_policy, make_observation, record_episodes, monkeypatch
):
    policy = make_policy(OPEN)
    record_episodes(policy)
    run = policy._engine.run

    def tuned_meanwhile(*args):
        policy.tune(rho_p=0.9, rho_n=1.0)
        return run(*args)

    monkeypatch.setattr(policy._engine, 'run', tuned_meanwhile)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.rho_p, call.rho_n) == (0.4, 0.5)
    assert policy.drain(20)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.rho_p, call.rho_n) == (0.9, 1.0)


def test_a_dead_rebuild_thread_makes_the_next_call_raise(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)

    def broken(inputs, checkpoint):
        raise OSError('device lost')

    policy._memory.rebuilder._expand = broken
    with pytest.raises(RebuildError):
        record_episodes(policy)
    with pytest.raises(RebuildError, match='OSError: device lost'):
        policy.infer(make_observation())
    assert policy.status().rebuild_error.endswith('OSError: device lost')
    policy.tune(enabled=False)
    assert policy.infer(make_observation()).provenance.reason is Reason.CACHE_DISABLED
    assert policy.status().rebuild_error.endswith('OSError: device lost')


def test_calls_report_their_wait_for_the_rebuild_thread(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)
    record_episodes(policy)
    expand = policy._memory.rebuilder._expand
    started = []

    def slow(inputs, checkpoint):
        def slow_checkpoint():
            checkpoint()
            started.append(policy._memory.gate._in_call)
            time.sleep(0.03)

        return expand(inputs, slow_checkpoint)

    policy._memory.rebuilder._expand = slow
    waits = []
    for call in range(4):
        time.sleep(0.02)
        waits.append(policy.infer(make_observation(call, 30)).provenance.times.gate_wait_ms)
    assert started and not any(started), 'a rebuild layer began during a call'
    assert 5 < max(waits) < 150


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


def test_recording_into_a_directory_that_cannot_be_written_is_refused_before(
    make_policy, tmp_path
):
    (tmp_path / 'file').write_text('')
    policy = make_policy({'library.directory': str(tmp_path / 'file' / 'library')})
    with pytest.raises(LibraryError, match='cannot be written'):
        policy.tune(record=True)
    policy.reset()
    assert not policy.status().recording


def test_a_similarity_that_is_not_a_number_does_not_pass_the_fence(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)
    record_episodes(policy)
    memory = policy._memory
    episode = next(iter(memory.library))
    match = memory.match(np.full_like(episode.entries[0].key, np.nan), episode.task)
    assert match.reason is Reason.FALLBACK_SIMILARITY
