"""The rebuild thread and the calls it must not delay."""

import time

import pytest
from policy_support import OPEN, infer_all

from rmuscle_ros.errors import RebuildError
from rmuscle_ros.types import Reason


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


def test_a_dead_rebuild_thread_makes_the_next_call_raise(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN)

    def broken(entry, checkpoint):
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

    def slow(entry, checkpoint):
        def slow_checkpoint():
            checkpoint()
            started.append(policy._memory.gate._in_call)
            time.sleep(0.03)

        return expand(entry, slow_checkpoint)

    policy._memory.rebuilder._expand = slow
    waits = []
    for call in range(4):
        time.sleep(0.02)
        waits.append(policy.infer(make_observation(call, 30)).provenance.times.gate_wait_ms)
    assert started and not any(started), 'a rebuild layer began during a call'
    assert 5 < max(waits) < 150
