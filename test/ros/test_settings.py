"""Settings that contradict each other or the policy are refused in words that help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_policy import CAMERAS, FakePolicy

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.ros.settings import (
    Controller,
    NodeSettings,
    Wiring,
    check_device,
    check_fit,
    check_horizon,
    check_wiring,
)

INFO = FakePolicy().info
SETTINGS = NodeSettings(
    cameras=CAMERAS, camera_topics=('high', 'low'), execution_horizon=10, blend_rows=3
)
CONTROLLERS = {
    'left': Controller('left', ('left_a', 'left_b')),
    'right': Controller('right', ('right_b', 'right_a')),
}


def wiring(controllers: dict[str, Controller] | None = None, **changes) -> Wiring:
    found = CONTROLLERS if controllers is None else controllers
    return Wiring(replace(SETTINGS, **changes), found)


def test_good_wiring_passes():
    check_wiring(wiring())
    check_fit(wiring(), INFO)
    assert wiring().camera_topics() == {'cam_high': 'high', 'cam_low': 'low'}


@pytest.mark.parametrize(
    ('bad', 'text'),
    [
        (wiring(cameras=()), 'cameras: found an empty list'),
        (wiring(cameras=('a', 'a')), 'cameras: found a more than once'),
        (wiring(cameras=('joint_states', 'b')), 'cameras: found joint_states more than once'),
        (wiring(camera_topics=('high',)), 'camera_topics: found 1 topics, expected one for each'),
        (wiring(camera_topics=('x', 'x')), 'camera_topics: found x more than once'),
        (wiring({}), 'controllers.names: found an empty list'),
        (wiring({'left': Controller('', ('a',))}), r'controllers\.left\.topic: not set'),
        (wiring({'left': Controller('t', ())}), r'controllers\.left\.joints: not set'),
        (
            wiring({'l': Controller('t', ('a',)), 'r': Controller('u', ('a',))}),
            'controllers: found a more than once',
        ),
    ],
)
def test_contradictions_are_named(bad, text):
    with pytest.raises(ConfigError, match=text):
        check_wiring(bad)


@pytest.mark.parametrize(
    ('bad', 'text'),
    [
        (wiring(cameras=('cam_hihg', 'cam_low')), r"no 'cam_hihg' \(did you mean cam_high\?\)"),
        (wiring(cameras=('cam_low',)), 'cameras: the policy also needs cam_high'),
        (
            wiring({'left': CONTROLLERS['left']}),
            r'controllers\.\*\.joints: the policy also needs right_a, right_b',
        ),
        (
            wiring(execution_horizon=21),
            'execution_horizon: found 21 rows, expected at most the 20',
        ),
        (wiring(blend_rows=20), 'blend_rows: found 20, expected fewer than the 20'),
    ],
)
def test_settings_that_do_not_fit_the_policy_are_named(bad, text):
    with pytest.raises(ConfigError, match=text):
        check_fit(bad, INFO)


def test_horizon_is_explained_in_seconds():
    with pytest.raises(ConfigError, match=r'0\.4 s at 0\.02 s each'):
        check_horizon(25, INFO)


def test_cpu_is_refused_unless_asked_for_or_allowed():
    with pytest.raises(ConfigError, match=r'no GPU, auto became cpu.*allow_cpu'):
        check_device('cpu', 'auto', allow_cpu=False)
    check_device('cpu', 'auto', allow_cpu=True)
    check_device('cpu', 'cpu', allow_cpu=False)
    check_device('cuda:0', 'auto', allow_cpu=False)
