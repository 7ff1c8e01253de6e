"""Configuration dataclasses as ROS parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')

import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter

from rmuscle_ros.config import PolicyConfig, fields_of, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.presets import PAPER
from rmuscle_ros.ros.deployment import Deployment
from rmuscle_ros.ros.parameter_files import read_parameters
from rmuscle_ros.ros.parameters import Parameters
from rmuscle_ros.ros.process import start_rclpy
from rmuscle_ros.ros.settings import NodeSettings, check_wiring
from rmuscle_ros.sim.aloha import CAMERAS, JOINT_NAMES

pytestmark = pytest.mark.ros
ROOT = Path(__file__).parents[2]


@contextmanager
def declared(
    domain_id: int, overrides: list[Parameter], arguments: list[str] | None = None
) -> Iterator[tuple[Node, Parameters, list[Any]]]:
    context = Context()
    rclpy.init(context=context, domain_id=domain_id, args=arguments)
    try:
        node = Node('rmuscle', context=context, parameter_overrides=overrides)
        applied: list[Any] = []
        yield node, Parameters(node, lambda live: applied.append(dict(live))), applied
        node.destroy_node()
    finally:
        rclpy.try_shutdown(context=context)


def override(**values: Any) -> list[Parameter]:
    return [Parameter(key.replace('__', '.'), value=value) for key, value in values.items()]


def test_every_field_is_a_parameter_with_description_and_range(ros_domain_id):
    with declared(ros_domain_id, []) as (node, _, _):
        for config in (PolicyConfig(), NodeSettings()):
            for key, item, default in fields_of(config):
                described = node.describe_parameter(key)
                assert described.description == item.metadata['description']
                value = node.get_parameter(key).value
                # Numbers come as an array of rclpy's own kind.
                assert (tuple(value) if isinstance(default, tuple) else value) == default
        described = node.describe_parameter('cache.rho_p')
        assert described.floating_point_range[0].to_value == 1.0
        assert node.describe_parameter('cache.candidates').integer_range[0].from_value == 1
        constraints = node.describe_parameter('library.admit').additional_constraints
        assert 'success, all' in constraints
        assert node.get_parameter('cameras').type_ == Parameter.Type.STRING_ARRAY
        assert node.get_parameter('cache.anchors').type_ == Parameter.Type.INTEGER_ARRAY


def test_whole_number_for_a_double_is_converted(ros_domain_id):
    """A YAML ``30`` where a double is declared kills a node that leaves the check to rclpy."""
    with declared(ros_domain_id, override(max_image_age_s=30, cache__rho_p=1)) as (node, found, _):
        assert found['max_image_age_s'] == 30.0
        assert found.policy_config().cache.rho_p == 1.0
        assert isinstance(node.get_parameter('cache.rho_p').value, float)


@pytest.mark.parametrize(
    ('overrides', 'text'),
    [
        ({'cache__rho_p': 1.5}, r'cache\.rho_p: found 1\.5, expected a value from 0 to 1'),
        ({'cache__rho_p': 'much'}, r"cache\.rho_p: found 'much', expected a float"),
        ({'cache__rho_p': float('nan')}, r'cache\.rho_p: found nan, expected a finite number'),
        ({'cache__candidates': 2.5}, r'cache\.candidates: found 2\.5, expected a int'),
        ({'execution_horizon': True}, 'execution_horizon: found True'),
        (
            {'library__admit': 'some'},
            r"library\.admit: found 'some', expected one of success, all",
        ),
        ({'cameras': 'cam_high'}, "cameras: found 'cam_high', expected a list of names"),
        ({'cache__anchors': 5}, r'cache\.anchors: found 5, expected a list of whole numbers'),
        (
            {'cache__anchors': [0.0, 5.0]},
            r'cache\.anchors: found \[0\.0, 5\.0\], expected a',
        ),
        ({'cache__anchors': [True]}, r'cache\.anchors: found \[True\], expected a list of whole'),
        (
            {'cache__anchors': '[0, 5]'},
            r"cache\.anchors: found '\[0, 5\]', expected a list",
        ),
        ({'cameras': [1, 2]}, r'cameras: found \[1, 2\], expected a list of names'),
        ({'controllers__names': ['names']}, "'names' cannot name a controller"),
    ],
)
def test_bad_start_value_is_refused_with_its_reason(ros_domain_id, overrides, text):
    with (
        pytest.raises(ConfigError, match=text),
        declared(ros_domain_id, override(**overrides)),
    ):
        pass


def test_yaml_file_with_unknown_keys_is_one_warning_that_names_them(
    ros_domain_id, tmp_path, capfd
):
    path = tmp_path / 'robot.yaml'
    path.write_text(
        '/**:\n  ros__parameters:\n    cache: {rho_q: 3, similarity_treshold: 0.5}\n'
        '    cameras: []\n    controllers: {names: [left], left: {topic: t, joints: [a, b]}}\n'
    )
    arguments = ['--ros-args', '--params-file', str(path)]
    with declared(ros_domain_id, [], arguments) as (_, found, _):
        wiring = found.wiring()
    assert wiring.controllers['left'].joints == ('a', 'b')
    assert wiring.settings.cameras == ()
    warnings = [line for line in capfd.readouterr().err.splitlines() if 'WARN' in line]
    assert len(warnings) == 1
    assert 'cache.rho_q (did you mean cache.rho_p?)' in warnings[0]
    assert 'cache.similarity_treshold (did you mean cache.similarity_threshold?)' in warnings[0]


@pytest.mark.parametrize(
    ('text', 'reason'),
    [('[0, 2.5]', 'should be of same type'), ('[0, two]', 'should be of same type')],
)
def test_a_yaml_list_of_mixed_types_is_refused_by_line(ros_domain_id, tmp_path, text, reason):
    path = tmp_path / 'mixed.yaml'
    path.write_text(f'/**:\n  ros__parameters:\n    cache.anchors: {text}\n')
    with pytest.raises(ConfigError, match=f'{reason}.*line_num 3'):
        start_rclpy(['--ros-args', '--params-file', str(path)])


@pytest.mark.parametrize('by', ['file', 'launch'])
def test_a_preset_changes_its_own_values_of_the_shipped_file(ros_domain_id, by):
    shipped = ROOT / 'config' / 'aloha.yaml'
    files = ['--params-file', str(ROOT / 'config' / 'presets' / 'paper.yaml')]
    arguments = ['--ros-args', '--params-file', str(shipped), *files]
    if by == 'launch':
        arguments = Deployment(shipped, shipped, preset='paper').node().arguments()
    with declared(ros_domain_id, [], arguments) as (_, found, _):
        values = read_parameters(shipped)
        caches = {key: values[key] for key in values if key.startswith('cache.')}
        assert found.policy_config().cache == with_values(PolicyConfig(), caches | PAPER).cache


def test_shipped_parameters_fit_the_simulated_station(ros_domain_id, capfd):
    arguments = ['--ros-args', '--params-file', str(ROOT / 'config' / 'aloha.yaml')]
    with declared(ros_domain_id, [], arguments) as (_, found, _):
        wiring = found.wiring()
    assert 'WARN' not in capfd.readouterr().err
    check_wiring(wiring)
    assert wiring.settings.cameras == CAMERAS
    joints = [name for arm in wiring.controllers.values() for name in arm.joints]
    assert joints == list(JOINT_NAMES)
    topics = [arm.topic for arm in wiring.controllers.values()]
    assert topics == [
        'follower_left_controller/joint_trajectory',
        'follower_right_controller/joint_trajectory',
    ]


def test_before_configure_everything_can_be_set_and_nothing_is_applied(ros_domain_id):
    with declared(ros_domain_id, []) as (node, found, applied):
        for name, value in (('cache.candidates', 2), ('cache.rho_p', 0.25), ('cameras', ['a'])):
            assert node.set_parameters([Parameter(name, value=value)])[0].successful
        assert found.policy_config().cache.candidates == 2
        assert found.wiring().settings.cameras == ('a',)
        assert not applied


def test_after_configure_only_live_parameters_change(ros_domain_id):
    with declared(ros_domain_id, []) as (node, found, applied):
        found.configured = True
        live = {
            'cache.rho_p': 0.25,
            'cache.rho_n': 0.5,
            'cache.guard': False,
            'cache.error_budget': 0.01,
            'cache.enabled': False,
            'cache.similarity_threshold': 0.9,
            'library.record': True,
            'shadow.every': 1,
            'shadow.warn_error': 0.05,
            'execution_horizon': 5,
        }
        for name, value in live.items():
            assert node.set_parameters([Parameter(name, value=value)])[0].successful, name
        assert applied == [{name: value} for name, value in live.items()]
        every = {
            key for config in (PolicyConfig(), NodeSettings()) for key, _, _ in fields_of(config)
        }
        for name in every - set(live):
            other = Parameter(name, value=_another(found[name]))
            result = node.set_parameters([other])[0]
            assert not result.successful, name
            assert name in result.reason


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return [0, 3] if value and isinstance(value[0], int) else ['other']
    return {'str': 'other', 'int': 6, 'float': 0.95}[type(value).__name__]


@pytest.mark.parametrize('value', [1.5, 2, -0.1, 'x', float('nan')])
def test_bad_live_value_is_refused_and_not_applied(ros_domain_id, value):
    with declared(ros_domain_id, []) as (node, found, applied):
        found.configured = True
        result = node.set_parameters([Parameter('cache.rho_p', value=value)])[0]
        assert not result.successful
        assert 'cache.rho_p' in result.reason
        assert found['cache.rho_p'] == PolicyConfig().cache.rho_p
        assert not applied


@pytest.mark.parametrize('error', [ConfigError('too bold'), KeyError('too bold')])
def test_reason_of_a_refusing_policy_is_handed_on(ros_domain_id, error):
    def refuse(live: Any) -> None:
        raise error

    with declared(ros_domain_id, []) as (node, _, _):
        other = Node('other', context=node.context)
        found = Parameters(other, refuse)
        found.configured = True
        result = other.set_parameters([Parameter('cache.rho_p', value=0.5)])[0]
        assert not result.successful
        assert 'too bold' in result.reason
        assert found['cache.rho_p'] == PolicyConfig().cache.rho_p
        other.destroy_node()


def test_setting_a_fixed_parameter_to_what_it_is_does_no_harm(ros_domain_id):
    with declared(ros_domain_id, []) as (node, found, _):
        found.configured = True
        assert node.set_parameters([Parameter('cache.candidates', value=4)])[0].successful
