"""The node as a process: how it ends, and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

pytest.importorskip('rclpy')

from node_harness import PARAMETERS, robot_only, wait_for

pytestmark = pytest.mark.ros
PROGRAM = Path(__file__).with_name('fake_policy.py')


@pytest.fixture
def params_file(tmp_path) -> Path:
    path = tmp_path / 'params.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': PARAMETERS}}))
    return path


@contextmanager
def process(domain_id: int, *arguments: str, **environment: str) -> Iterator[subprocess.Popen]:
    found = subprocess.Popen(
        [sys.executable, str(PROGRAM), '--ros-args', *arguments],
        env={**os.environ, 'ROS_DOMAIN_ID': str(domain_id), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield found
    finally:
        if found.poll() is None:
            found.kill()
            found.communicate()


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM], ids=['sigint', 'sigterm'])
@pytest.mark.parametrize('latency_s', ['0.05', '1.0'])
def test_signal_holds_the_arm_and_ends_cleanly(ros_domain_id, params_file, number, latency_s):
    """Ctrl-C, also during a call: hold command published, exit code 0, no traceback."""
    arguments = ('--params-file', str(params_file))
    with (
        robot_only(ros_domain_id) as robot,
        process(ros_domain_id, *arguments, FAKE_LATENCY_S=latency_s) as node,
    ):
        assert robot.change('configure')
        assert robot.change('activate')
        wait_for(lambda: robot.chunks, 'chunk')
        node.send_signal(number)
        _, errors = node.communicate(timeout=10.0)
        assert node.returncode == 0
        assert 'Traceback' not in errors
        wait_for(robot.holds, 'hold command')
        assert len(robot.trajectories['left'][-1][1].points) == 1


@pytest.mark.parametrize('state', ['unconfigured', 'inactive'])
def test_signal_in_other_states_ends_cleanly_too(ros_domain_id, params_file, state):
    arguments = ('--params-file', str(params_file))
    with robot_only(ros_domain_id) as robot, process(ros_domain_id, *arguments) as node:
        assert robot.state() == 'unconfigured'
        if state == 'inactive':
            assert robot.change('configure')
        node.send_signal(signal.SIGINT)
        _, errors = node.communicate(timeout=10.0)
        assert node.returncode == 0
        assert 'Traceback' not in errors


def test_call_that_never_ends_does_not_keep_the_process(ros_domain_id, params_file):
    arguments = ('--params-file', str(params_file), '-p', 'join_timeout_s:=0.3')
    with (
        robot_only(ros_domain_id) as robot,
        process(ros_domain_id, *arguments, FAKE_LATENCY_S='60') as node,
    ):
        assert robot.change('configure')
        assert robot.change('activate')
        wait_for(lambda: 'cam_high' in str(robot.diagnostics), 'activity')
        time.sleep(0.5)
        node.send_signal(signal.SIGINT)
        _, errors = node.communicate(timeout=5.0)
        assert node.returncode == 1
        assert 'a call did not end in time' in errors
        wait_for(robot.holds, 'hold command')


def test_bad_parameter_is_one_clear_line_and_exit_code_2(ros_domain_id, params_file):
    arguments = ('--params-file', str(params_file), '-p', 'cache.rho_p:=1.5')
    with process(ros_domain_id, *arguments) as node:
        _, errors = node.communicate(timeout=10.0)
    assert node.returncode == 2
    assert errors.splitlines() == [
        'rmuscle_node: cache.rho_p: found 1.5, expected a value from 0 to 1'
    ]


@pytest.mark.parametrize(
    ('arguments', 'text'),
    [
        (('--bogus',), "rmuscle_node: unknown ROS arguments ['--bogus']"),
        (('--params-file', 'nowhere.yaml'), "Couldn't parse params file: '--params-file nowhere"),
    ],
    ids=['argument', 'file'],
)
def test_unreadable_command_line_is_no_traceback(ros_domain_id, arguments, text):
    with process(ros_domain_id, *arguments) as node:
        _, errors = node.communicate(timeout=10.0)
    assert node.returncode == 2
    assert text in errors
    assert 'Traceback' not in errors


def test_namespace_moves_node_and_topics(ros_domain_id, params_file):
    arguments = ('--params-file', str(params_file), '-r', '__ns:=/cell')
    with (
        robot_only(ros_domain_id, '/cell/rmuscle') as robot,
        process(ros_domain_id, *arguments) as node,
    ):
        assert robot.change('configure')
        found = wait_for(
            lambda: robot.node.get_subscriptions_info_by_topic('/cell/joint_states'),
            'subscription',
        )
        assert found[0].node_name == 'rmuscle'
        node.send_signal(signal.SIGINT)
        node.communicate(timeout=10.0)


@pytest.mark.parametrize('executable', ['rmuscle_node', 'aloha_station'])
def test_a_signal_while_it_is_still_importing_ends_it_quietly(executable):
    script = Path(__file__).parents[2] / 'scripts' / executable
    started = subprocess.Popen(
        [sys.executable, '-X', 'importtime', str(script)], stderr=subprocess.PIPE, text=True
    )
    # The first lines come from the imports that follow the handlers.
    for line in started.stderr:
        if 'rmuscle_ros.' in line:
            break
    started.send_signal(signal.SIGINT)
    rest = started.communicate(timeout=20)[1]
    assert started.returncode == 0
    assert 'Traceback' not in rest
