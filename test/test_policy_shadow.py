"""Shadow mode in the whole policy: idle time only, and nothing swallowed."""

import threading
import time

import numpy as np
import pytest
import torch
from policy_support import OPEN

from rmuscle_ros.errors import ConfigError, RebuildError

EVERY = OPEN | {'shadow.every': 1}


def call_all(policy, make_observation, calls=4, **arguments):
    for call in range(calls):
        policy.infer(make_observation(call, 30), **arguments)
        assert policy.drain(20)


def begin_episode(policy):
    policy.reset()
    assert policy.drain(20)


def test_full_budget_has_no_error_and_a_starved_one_has(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(EVERY | {'cache.rho_p': 1.0, 'cache.rho_n': 1.0})
    record_episodes(policy)
    assert policy.status().shadow.runs == 0, 'recorded calls are dense'
    call_all(policy, make_observation)
    exact = policy.status().shadow
    assert exact.runs == 4 and exact.max < 1e-5
    policy.tune(rho_p=0.0, rho_n=0.0625)
    begin_episode(policy)
    call_all(policy, make_observation)
    starved = policy.status().shadow
    assert starved.runs == 8 and starved.last.error > 1e-4
    assert starved.spread_p50 > 0


def test_the_error_is_that_of_the_paired_dense_call(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(EVERY | {'cache.rho_p': 0.1, 'cache.rho_n': 0.25})
    record_episodes(policy)
    noise = np.random.default_rng(4).standard_normal((7, 14), np.float32)
    runs, run = [], policy._engine.run

    def kept(*args):
        runs.append(run(*args))
        return runs[-1]

    policy._engine.run = kept
    chunk = policy.infer(make_observation(0, 30), noise=noise)
    assert policy.drain(20)
    last = policy.status().shadow.last
    policy.tune(enabled=False)
    policy.infer(make_observation(0, 30), noise=noise)
    difference = np.abs(runs[0].normalised - runs[1].normalised)
    assert last.error == pytest.approx(difference.mean(), rel=1e-5) and last.error > 1e-5
    assert last.largest == pytest.approx(difference.max(), rel=1e-5)
    assert (last.call, last.reference_id) == (8, chunk.provenance.reference_id)
    assert last.drift == chunk.provenance.drift


def test_every_is_live(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN | {'shadow.every': 0})
    record_episodes(policy)
    call_all(policy, make_observation)
    assert policy.status().shadow.runs == 0
    policy.tune(shadow_every=2)
    begin_episode(policy)
    call_all(policy, make_observation)
    assert policy.status().shadow.runs == 2
    with pytest.raises(ConfigError, match=r'shadow.every: found -1, expected a value of at least'):
        policy.tune(shadow_every=-1)


def test_the_calls_noise_does_not_depend_on_shadows(
    make_policy, make_observation, record_episodes
):
    drawn = []
    for every in (0, 1):
        policy = make_policy(OPEN | {'shadow.every': every})
        record_episodes(policy)
        torch.manual_seed(5)
        call_all(policy, make_observation)
        assert policy.status().calls['cached'] == 4
        drawn.append(policy._engine.draw_noise())
    assert np.array_equal(*drawn)


def slowed(policy, layer_s):
    """Let every layer of a dense rerun last ``layer_s``; notes layers that begin in a call."""
    dense_actions, gate = policy._shadow._dense_actions, policy._memory.gate
    layers, running = [], threading.Event()

    def slow(inputs, noise, checkpoint):
        def slow_checkpoint():
            checkpoint()
            layers.append(gate._in_call)
            running.set()
            time.sleep(layer_s)

        return dense_actions(inputs, noise, slow_checkpoint)

    policy._shadow._dense_actions = slow
    return layers, running


def test_a_call_waits_for_one_layer_of_a_shadow_at_most(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(EVERY)
    record_episodes(policy)
    layers, running = slowed(policy, layer_s=0.03)
    waits = []
    for call in range(4):
        waits.append(policy.infer(make_observation(call, 30)).provenance.times.gate_wait_ms)
        assert running.wait(5)
        time.sleep(0.05)
    assert layers and not any(layers), 'a layer of the shadow began during a call'
    # A whole rerun of some 40 layers would last over a second.
    assert 5 < max(waits) < 150


def test_wanted_entries_come_before_the_shadow(make_policy, make_observation, record_episodes):
    policy = make_policy(EVERY)
    record_episodes(policy)
    order, rebuilder = [], policy._memory.rebuilder
    expand, dense_actions = rebuilder._expand, policy._shadow._dense_actions

    def expanding(*args):
        order.append('expand')
        return expand(*args)

    def rerunning(*args):
        order.append('rerun')
        return dense_actions(*args)

    rebuilder._expand, policy._shadow._dense_actions = expanding, rerunning
    policy.infer(make_observation(0, 30))
    assert policy.drain(20)
    assert order.count('expand') > 3 and order.index('rerun') == order.count('expand')


def test_calls_without_idle_time_are_skipped_and_counted(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(EVERY)
    record_episodes(policy)
    policy.infer(make_observation(0, 30))
    assert policy.drain(20)
    _, running = slowed(policy, layer_s=0.01)
    policy.infer(make_observation(0, 30))
    assert running.wait(5)
    for _ in range(5):
        policy.infer(make_observation(0, 30))
    assert policy.drain(20)
    shadow = policy.status().shadow
    assert shadow.skipped == 4 and shadow.runs == 3
    assert policy.status().calls['cached'] == 7


def test_a_failing_rerun_makes_the_next_call_raise(make_policy, make_observation, record_episodes):
    policy = make_policy(EVERY)
    record_episodes(policy)

    def broken(inputs, noise, checkpoint):
        raise OSError('device lost')

    policy._shadow._dense_actions = broken
    policy.infer(make_observation(0, 30))
    with pytest.raises(RebuildError, match=r'densely \(shadow mode\): OSError: device lost'):
        policy.drain(20)
    with pytest.raises(RebuildError, match='OSError: device lost'):
        policy.infer(make_observation(1, 30))
