"""Live options of the whole policy."""

import pytest
from policy_support import OPEN

from rmuscle_ros.errors import ConfigError


def test_tuning_takes_effect_with_the_next_call(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN)
    record_episodes(policy)
    policy.tune(rho_p=0.75, rho_n=0.3)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.rho_p, call.rho_n) == (0.75, 0.3125)
    with pytest.raises(ConfigError, match=r'cache.rho_p: found 1.5, expected a value from 0 to 1'):
        policy.tune(rho_p=1.5)
    with pytest.raises(ConfigError, match='anchors: cannot be tuned'):
        policy.tune(anchors=(0, 3))
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
    assert (call.rho_p, call.rho_n) == (0.2, 0.0)
    assert policy.drain(20)
    call = policy.infer(make_observation(0, 30)).provenance
    assert (call.rho_p, call.rho_n) == (0.9, 1.0)
