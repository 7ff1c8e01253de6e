"""Named settings: each of them is valid, and runs."""

import pytest
from policy_support import OPEN, infer_all

from rmuscle_ros.config import PolicyConfig, fields_of, with_values
from rmuscle_ros.planning import check_settings
from rmuscle_ros.presets import FIXED, PAPER, PRESETS
from rmuscle_ros.types import Reason

presets = pytest.mark.parametrize('values', PRESETS.values(), ids=PRESETS)


@presets
def test_every_preset_is_a_valid_configuration(values):
    config = with_values(PolicyConfig(), values)
    check_settings(config.cache, config.engine.denoise_steps)
    taken = {key: value for key, _, value in fields_of(config)}
    assert {key: taken[key] for key in values} == values


@presets
def test_every_preset_serves_calls(make_policy, make_observation, record_episodes, values):
    policy = make_policy(OPEN | values | {'cache.similarity_threshold': -1.0})
    record_episodes(policy)
    calls = infer_all(policy, make_observation, calls=2)
    assert [call.reason for call in calls] == [Reason.CACHED] * 2
    assert {call.rho_p for call in calls} == {policy._config.cache.rho_p}
    assert {call.rho_n for call in calls} == {policy._config.cache.rho_n}
    assert all((call.error_estimate is not None) == policy._config.cache.guard for call in calls)


def test_the_published_rules_need_no_calibration(make_policy, make_observation, record_episodes):
    policy = make_policy(PAPER | {'cache.similarity_threshold': -1.0})
    record_episodes(policy, episodes=1)
    (call,) = infer_all(policy, make_observation, calls=1)
    assert (call.reason, call.rho_p, call.rho_n) == (Reason.CACHED, 0.4, 0.5)


def test_fixed_is_the_default_but_for_the_guard_and_its_share():
    assert set(FIXED) == {'cache.guard', 'cache.rho_p'}
    assert PRESETS['default'] == {}
