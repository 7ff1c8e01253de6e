"""One description of the processes: what it contains, and what it refuses."""

import subprocess
import sys

import pytest

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.ros.deployment import Deployment, NodeProcess, arguments


@pytest.fixture
def files(tmp_path):
    (tmp_path / 'config').mkdir()
    for name in ('aloha', 'station'):
        (tmp_path / 'config' / f'{name}.yaml').write_text('/**: {ros__parameters: {}}\n')
    return tmp_path


def defaults(share, **changes):
    return {item.name: item.default for item in arguments(share)} | changes


def test_by_default_the_station_starts_before_the_node(files):
    deployment = Deployment.from_arguments(defaults(files))
    assert [p.executable for p in deployment.processes()] == ['aloha_station', 'rmuscle_node']
    assert [p.lifecycle for p in deployment.processes()] == [False, True]


def test_on_a_robot_only_the_node_runs_and_no_station_file_is_needed(files):
    values = defaults(files, sim='false', station_params_file='/nowhere.yaml')
    assert [p.name for p in Deployment.from_arguments(values).processes()] == ['rmuscle']


def test_simulated_time_is_published_by_the_station_and_used_by_the_node(files):
    station, node = Deployment.from_arguments(defaults(files, use_sim_time='true')).processes()
    assert station.parameters == {'publish_clock': True}
    assert node.parameters == {'use_sim_time': True}


def test_a_preset_comes_after_the_parameter_file(files):
    node = Deployment.from_arguments(defaults(files, preset='paper')).node()
    words = node.arguments()
    assert words.index('--params-file') < words.index('cache.anchors:=[0, 5]')
    assert {'cache.guard:=false', 'cache.rho_p:=0.4', 'cache.unselected:="hold"'} <= set(words)
    assert not Deployment.from_arguments(defaults(files)).node().parameters


def test_namespace_and_log_level_reach_every_process(files):
    values = defaults(files, namespace='cell_1', log_level='debug')
    for process in Deployment.from_arguments(values).processes():
        assert process.full_name == f'/cell_1/{process.name}'
        assert '__ns:=/cell_1' in process.arguments()
        assert process.arguments()[-2:] == ['--log-level', 'debug']


def test_launch_arguments_lead_back_to_the_same_deployment(files):
    changes = {'namespace': 'a', 'autostart': 'false', 'preset': 'fixed'}
    deployment = Deployment.from_arguments(defaults(files, **changes))
    values = dict(text.split(':=', 1) for text in deployment.launch_arguments())
    assert Deployment.from_arguments(defaults(files) | values) == deployment


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'params_file': '/nowhere.yaml'}, 'params_file: no file /nowhere.yaml'),
        ({'station_params_file': '/nowhere.yaml'}, 'station_params_file: no file'),
        ({'sim': 'yes'}, "sim: found 'yes', expected true or false"),
        ({'log_level': 'loud'}, "log_level: found 'loud', expected one of debug"),
        ({'preset': 'papre'}, "preset: found 'papre', expected one of default, fixed, paper"),
    ],
)
def test_bad_arguments_are_refused_by_name(files, changes, message):
    with pytest.raises(ConfigError, match=message):
        Deployment.from_arguments(defaults(files, **changes))


def test_node_arguments_are_those_of_the_ros_command_line(tmp_path):
    process = NodeProcess(
        executable='node',
        name='n',
        parameter_files=(tmp_path / 'a.yaml',),
        parameters={'rate_hz': 30.0, 'on': True, 'text': 'true', 'count': 3},
        remappings=(('joint_states', '/left/joint_states'),),
    )
    assert process.arguments() == [
        *('--ros-args', '-r', '__node:=n', '--params-file', str(tmp_path / 'a.yaml')),
        *('-p', 'rate_hz:=30.0', '-p', 'on:=true', '-p', 'text:="true"', '-p', 'count:=3'),
        *('-r', 'joint_states:=/left/joint_states', '--log-level', 'info'),
    ]


@pytest.mark.parametrize(
    ('namespace', 'expected'), [('', '/n'), ('/', '/n'), ('a', '/a/n'), ('/a/b/', '/a/b/n')]
)
def test_full_names(namespace, expected):
    assert NodeProcess(executable='node', name='n', namespace=namespace).full_name == expected


def test_the_description_needs_neither_rclpy_nor_launch():
    code = (
        'import sys; sys.modules.update(rclpy=None, launch=None, launch_ros=None); '
        'import rmuscle_ros.ros.deployment'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
