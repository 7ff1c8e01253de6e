"""The node in all its states, over real topics and services."""

from __future__ import annotations

import array
import io
import re
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy')

from fake_policy import CAMERAS, HORIZON, JOINTS, FakePolicy
from node_harness import is_hold, running, wait_for
from PIL import Image as Picture
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from rmuscle_ros.config import PolicyConfig
from rmuscle_ros.errors import CheckpointError, ObservationError, RebuildError, SetupError
from rmuscle_ros.ros.conversions import to_seconds, to_time
from rmuscle_ros.ros.node import load_policy

pytestmark = pytest.mark.ros
ERROR = 2
WARN = 1


def bring_up(robot) -> None:
    assert robot.change('configure')
    assert robot.change('activate')
    wait_for(lambda: len(robot.chunks) >= 2, 'chunks')


def set_parameter(robot, name, value):
    request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
    return robot.call(SetParameters, 'set_parameters', request).results[0]


def entities(node) -> dict[str, int]:
    kinds = ('publishers', 'subscriptions', 'services', 'timers', 'waitables', '_managed_entities')
    return {kind: len(list(getattr(node, kind))) for kind in kinds}


def test_whole_lifecycle_twice_leaves_nothing_behind(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (node, robot):
        before = entities(node)
        for turn in (1, 2):
            assert robot.change('configure')
            assert robot.state() == 'inactive'
            assert policy.warm_ups == turn
            configured = entities(node)
            chunks = len(robot.chunks)
            assert robot.change('activate')
            wait_for(lambda n=chunks: len(robot.chunks) > n + 2, 'chunks')
            holds = len(robot.holds())
            assert robot.change('deactivate')
            wait_for(lambda n=holds: len(robot.holds()) == n + 1, 'hold command')
            assert entities(node) == configured
            assert robot.change('cleanup')
            assert robot.state() == 'unconfigured'
            assert policy.closes == turn
            assert entities(node) == before


def test_ten_activations_in_a_row(ros_domain_id):
    with running(ros_domain_id, FakePolicy()) as (_, robot):
        assert robot.change('configure')
        for _ in range(10):
            chunks = len(robot.chunks)
            assert robot.change('activate')
            wait_for(lambda n=chunks: len(robot.chunks) > n, 'a chunk')
            assert robot.change('deactivate')
        wait_for(lambda: len(robot.holds()) == 10, 'a hold command each')
        last = robot.trajectories['left'][-1][1]
        assert is_hold(last)


def test_chunks_reach_the_controllers_by_joint_name(ros_domain_id):
    with running(ros_domain_id, FakePolicy()) as (_, robot):
        robot.joint_names = [*reversed(JOINTS), 'lid']
        bring_up(robot)
        chunk = robot.chunks[0]
        wait_for(lambda: robot.trajectories['right'], 'trajectory')
        trajectory = robot.trajectories['right'][0][1]
    actions = np.array(chunk.actions).reshape(HORIZON, len(JOINTS))
    assert list(trajectory.joint_names) == ['right_b', 'right_a']
    np.testing.assert_allclose(actions[0], [robot.positions[name] for name in JOINTS], atol=1e-6)
    np.testing.assert_allclose(
        [list(point.positions) for point in trajectory.points], actions[:, [3, 2]]
    )
    times_s = [to_seconds(point.time_from_start) for point in trajectory.points]
    assert times_s[0] > 0.0
    assert np.all(np.diff(times_s) > 0.0)


def test_chunks_meet_without_a_pause(ros_domain_id):
    with running(ros_domain_id, FakePolicy(latency_s=0.1, period_s=0.05)) as (_, robot):
        bring_up(robot)
        time.sleep(3.5)
        spans = [
            (to_seconds(m.header.stamp), to_seconds(m.points[-1].time_from_start))
            for _, m in robot.trajectories['left']
        ]
    assert len(spans) >= 6
    ends_s = [start_s + length_s for start_s, length_s in spans]
    assert all(after[0] < end_s for after, end_s in zip(spans[1:], ends_s, strict=False))
    gaps_s = np.diff([start_s for start_s, _ in spans[2:]])
    assert np.median(gaps_s) == pytest.approx(10 * 0.05, abs=0.1)


def test_deactivate_during_a_call_holds_at_once_and_drops_its_chunk(ros_domain_id):
    policy = FakePolicy(latency_s=1.0)
    with running(ros_domain_id, policy) as (_, robot):
        assert robot.change('configure')
        assert robot.change('activate')
        assert policy.in_call.wait(5.0)
        begin_s = time.monotonic()
        assert robot.change('deactivate')
        took_s = time.monotonic() - begin_s
        wait_for(robot.holds, 'hold command')
        arrived_s = robot.trajectories['left'][0][0] - begin_s
        assert arrived_s < 0.7
        assert took_s < 2.0
        time.sleep(0.2)
        assert len(robot.trajectories['left']) == 1
        assert not robot.chunks
        assert robot.change('activate')
        wait_for(lambda: robot.chunks, 'chunk')


def test_call_that_outlasts_the_join_refuses_cleanup_until_it_ends(ros_domain_id):
    policy = FakePolicy(latency_s=1.0)
    with running(ros_domain_id, policy, {'join_timeout_s': 0.2}) as (_, robot):
        assert robot.change('configure')
        assert robot.change('activate')
        assert policy.in_call.wait(5.0)
        assert robot.change('deactivate')
        assert not robot.change('cleanup')
        assert robot.state() == 'inactive'
        assert not robot.change('activate')
        assert robot.state() == 'inactive'
        wait_for(lambda: not policy.in_call.is_set(), 'end of the call')
        time.sleep(0.05)
        assert robot.change('cleanup')
        assert policy.closes == 1


def test_hold_is_at_the_measured_positions(ros_domain_id):
    with running(ros_domain_id, FakePolicy()) as (_, robot):
        bring_up(robot)
        assert robot.change('deactivate')
        hold = wait_for(lambda: robot.holds('right'), 'hold command')[0]
    assert list(hold.joint_names) == ['right_b', 'right_a']
    expected = [robot.positions['right_b'], robot.positions['right_a']]
    assert list(hold.points[0].positions) == pytest.approx(expected)
    assert to_seconds(hold.header.stamp) == 0.0


def test_failing_model_load_is_logged_with_traceback_and_can_be_retried(ros_domain_id, capfd):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (node, robot):
        before = entities(node)

        def broken(config):
            raise CheckpointError('model.safetensors is cut off')

        factory, node._policy_factory = node._policy_factory, broken
        assert not robot.change('configure')
        assert robot.state() == 'unconfigured'
        assert entities(node) == before
        log = capfd.readouterr().err
        assert 'on_configure failed: model.safetensors is cut off' in log
        assert 'Traceback' in log
        node._policy_factory = factory
        assert robot.change('configure')


@pytest.mark.parametrize(
    ('parameters', 'text'),
    [
        ({'cameras': ['cam_high', 'cam_x']}, "cameras: the policy knows no 'cam_x'"),
        ({'camera_topics': ['x']}, 'camera_topics: found 1 topics'),
        ({'allow_cpu': False}, 'no GPU'),
        ({'execution_horizon': 21}, 'execution_horizon: found 21 rows'),
        ({'controllers.left.joints': ['left_a']}, 'the policy also needs left_b'),
    ],
)
def test_settings_that_do_not_fit_fail_configure_with_the_reason(
    ros_domain_id, parameters, text, capfd
):
    with running(ros_domain_id, FakePolicy(), parameters) as (_, robot):
        assert not robot.change('configure')
        assert robot.state() == 'unconfigured'
    lines = [line for line in capfd.readouterr().err.splitlines() if 'on_configure failed' in line]
    assert len(lines) == 1
    assert text in lines[0]


def test_live_parameters_reach_the_policy_and_the_schedule(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        bring_up(robot)
        for name in ('rho_p', 'rho_n', 'similarity_threshold'):
            assert set_parameter(robot, f'cache.{name}', 0.25).successful
        assert set_parameter(robot, 'cache.enabled', False).successful
        assert set_parameter(robot, 'library.record', True).successful
        assert policy.tuned == {
            'rho_p': 0.25,
            'rho_n': 0.25,
            'similarity_threshold': 0.25,
            'enabled': False,
            'record': True,
        }
        result = set_parameter(robot, 'execution_horizon', 21)
        assert not result.successful
        assert 'at most the 20 rows' in result.reason
        assert set_parameter(robot, 'execution_horizon', 4).successful
        result = set_parameter(robot, 'cache.candidates', 2)
        assert not result.successful
        assert 'fixed after configure' in result.reason
        status = wait_for(lambda: robot.statuses[-1:], 'status')[0]
        wait_for(lambda: robot.statuses[-1].rho_p == 0.25, 'status with the new value')
        assert status.instruction == 'lift'


@pytest.mark.parametrize('active', [False, True])
def test_reset_and_end_episode_cross_to_the_policy(ros_domain_id, active):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        assert robot.change('configure')
        if active:
            assert robot.change('activate')
            wait_for(lambda: robot.chunks, 'chunk')
        assert robot.call(Trigger, 'reset').success
        assert (policy.resets, policy.ends) == (1, 0)
        answer = robot.call(SetBool, 'end_episode', SetBool.Request(data=True))
        assert (answer.success, answer.message) == (True, 'success True')
        assert (policy.resets, policy.ends) == (1, 1)
        policy.recording = True
        answer = robot.call(SetBool, 'end_episode', SetBool.Request(data=False))
        assert (answer.success, answer.message) == (False, 'success False')


def test_reset_during_a_call_answers_after_it_and_keeps_the_executor_free(ros_domain_id):
    policy = FakePolicy(latency_s=1.0)
    with running(ros_domain_id, policy) as (_, robot):
        assert robot.change('configure')
        assert robot.change('activate')
        assert policy.in_call.wait(5.0)
        client = robot.node.create_client(Trigger, '/rmuscle/reset')
        future = client.call_async(Trigger.Request())
        begin_s = time.monotonic()
        assert robot.state() == 'active'
        wait_for(robot.holds, 'hold command')
        assert time.monotonic() - begin_s < 0.7
        assert not future.done()
        wait_for(future.done, 'answer', 2.0)
        assert future.result().success
        assert policy.resets == 1
        assert not robot.chunks
        reset_s = policy.observations[0].stamp_s
        wait_for(lambda: robot.chunks, 'chunk of the new episode')
        assert policy.observations[1].stamp_s > reset_s


def test_new_instruction_ends_the_episode_the_same_one_does_not(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        bring_up(robot)
        robot.instruction.publish(String(data='lift'))
        time.sleep(0.2)
        assert policy.resets == 0
        robot.instruction.publish(String(data='put it down'))
        wait_for(lambda: policy.resets == 1, 'reset')
        wait_for(lambda: policy.observations[-1].instruction == 'put it down', 'new instruction')


@pytest.mark.parametrize('impossible', ['activate', 'deactivate', 'cleanup'])
def test_impossible_transition_is_refused_and_the_node_lives_on(ros_domain_id, impossible):
    with running(ros_domain_id, FakePolicy()) as (_, robot):
        assert not robot.change(impossible)
        assert robot.state() == 'unconfigured'
        bring_up(robot)
        assert not robot.change('configure')
        assert robot.state() == 'active'


def test_instruction_published_before_the_node_was_configured_is_heard(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy, {'instruction': ''}) as (_, robot):
        robot.instruction.publish(String(data='open the lid'))
        bring_up(robot)
        assert {obs.instruction for obs in policy.observations} == {'open the lid'}


def test_silent_camera_is_named_held_and_recovered_from(ros_domain_id):
    with running(ros_domain_id, FakePolicy()) as (_, robot):
        bring_up(robot)
        robot.silent.add('cam_low')
        wait_for(lambda: robot.level('observations') == ERROR, 'error')
        assert 'cam_low: last received' in robot.text('observations')
        assert robot.holds()
        chunks = len(robot.chunks)
        robot.silent.clear()
        wait_for(lambda: len(robot.chunks) > chunks, 'chunk')
        wait_for(lambda: robot.level('observations') == 0, 'recovery')


@pytest.mark.parametrize(
    ('break_it', 'text'),
    [
        (
            lambda robot: robot.silent.add('cam_high'),
            'cam_high: nothing usable received on cam_high',
        ),
        (lambda robot: setattr(robot, 'encoding', '32FC1'), "'32FC1', expected one of rgb8"),
        (lambda robot: robot.positions.update(left_b=float('nan')), 'left_b is nan'),
        (lambda robot: setattr(robot, 'joint_names', ['left_a']), 'no joint left_b'),
    ],
    ids=['no-camera', 'encoding', 'nan', 'missing-joint'],
)
def test_bad_input_is_explained_and_nothing_moves(ros_domain_id, break_it, text):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        break_it(robot)
        assert robot.change('configure')
        assert robot.change('activate')
        wait_for(lambda: robot.level('observations') == ERROR, 'error')
        assert text in robot.text('observations')
        assert 'no observation for' in robot.text('observations')
        assert not policy.observations
        assert not robot.chunks
        assert robot.change('deactivate')


def test_incompatible_qos_is_reported(ros_domain_id):
    reliable = {'sensor_reliability': 'reliable'}
    with running(ros_domain_id, FakePolicy(), reliable) as (_, robot):
        assert robot.change('configure')
        wait_for(lambda: robot.level('observations') == WARN, 'warning')
        assert 'cam_high/image_raw: a publisher offers another RELIABILITY' in robot.text(
            'observations'
        )


@pytest.mark.parametrize(
    ('fault', 'text'),
    [
        (RebuildError('out of memory'), 'out of memory'),
        (ZeroDivisionError('bug'), 'ZeroDivisionError: bug'),
        (ObservationError('cam_low is upside down'), 'cam_low is upside down'),
    ],
    ids=['rebuild', 'crash', 'observation'],
)
def test_failing_call_holds_and_leaves_the_node_alive(ros_domain_id, fault, text):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        bring_up(robot)
        policy.fault = fault
        wait_for(robot.holds, 'hold command')
        wait_for(lambda: robot.level('policy') == ERROR, 'error')
        assert text in robot.text('policy')
        policy.fault = None
        assert robot.change('deactivate')
        assert robot.change('activate')
        chunks = len(robot.chunks)
        wait_for(lambda: len(robot.chunks) > chunks, 'chunk')


def test_dead_rebuild_thread_shows_even_when_nobody_calls(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        assert robot.change('configure')
        policy.rebuild_error = 'ValueError: shapes'
        wait_for(lambda: robot.level('policy') == ERROR, 'error')
        assert 'the rebuild thread has died: ValueError: shapes' in robot.text('policy')


def test_call_longer_than_a_chunk_is_an_error(ros_domain_id):
    with running(ros_domain_id, FakePolicy(latency_s=0.6)) as (_, robot):
        bring_up(robot)
        wait_for(lambda: robot.level('schedule') == ERROR, 'error')
        wait_for(lambda: 'calls take 0.6' in robot.text('schedule'), 'latency')
        assert robot.holds()


def test_diagnostics_speak_in_every_state(ros_domain_id):
    with running(ros_domain_id, FakePolicy(), {'hardware_id': 'cell 3'}) as (_, robot):
        wait_for(lambda: robot.text('policy') == 'unconfigured', 'unconfigured')
        assert robot.change('configure')
        wait_for(lambda: robot.text('schedule') == 'inactive', 'inactive')
        assert robot.change('activate')
        wait_for(lambda: robot.text('observations') == 'active', 'active')
        found = robot.diagnostics['/rmuscle: policy']
        assert found.hardware_id == 'cell 3'
        values = {item.key: item.value for item in found.values}
        assert (values['engine'], values['dtype'], values['device']) == ('fake', 'float32', 'cpu')
        assert 'calls_cached' in values


def test_missing_library_says_which_interpreter_and_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, 'rmuscle_ros.policy', None)
    with pytest.raises(SetupError, match=f'{re.escape(sys.executable)}; start the node from'):
        load_policy(PolicyConfig())


def test_clock_that_jumps_back_begins_an_episode(ros_domain_id):
    """A restarted simulation: everything observed or planned so far is of another time."""
    policy = FakePolicy(latency_s=0.01)
    with running(ros_domain_id, policy, {'use_sim_time': True}) as (node, robot):
        publisher = robot.node.create_publisher(Clock, '/clock', 10)
        robot.clock_s = 100.0

        def tick() -> None:
            robot.clock_s += 0.02
            publisher.publish(Clock(clock=to_time(robot.clock_s)))

        robot.node.create_timer(0.02, tick)
        wait_for(lambda: node.get_clock().now().nanoseconds, 'time')
        bring_up(robot)
        assert policy.resets == 0
        chunks = len(robot.chunks)
        robot.clock_s = 50.0
        wait_for(lambda: policy.resets == 1, 'reset')
        wait_for(lambda: len(robot.chunks) > chunks + 2, 'chunks in the new time')
        assert to_seconds(robot.chunks[-1].header.stamp) < 60.0


def test_compressed_images(ros_domain_id):
    policy = FakePolicy()
    topics = [f'{name}/compressed' for name in CAMERAS]
    parameters = {'compressed': True, 'camera_topics': topics}
    with running(ros_domain_id, policy, parameters) as (_, robot):
        publishers = [robot.node.create_publisher(CompressedImage, topic, 1) for topic in topics]
        buffer = io.BytesIO()
        Picture.fromarray(np.full((8, 8, 3), (200, 30, 60), np.uint8)).save(buffer, 'PNG')

        def publish() -> None:
            message = CompressedImage(format='png', data=array.array('B', buffer.getvalue()))
            message.header.stamp = robot.stamp()
            for publisher in publishers:
                publisher.publish(message)

        robot.node.create_timer(0.04, publish)
        bring_up(robot)
        assert policy.observations[0].images['cam_low'][0, 0].tolist() == [200, 30, 60]


def test_images_of_a_reliable_publisher_are_received_too(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        reliable = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
        robot.silent.add('cam_high')
        publisher = robot.node.create_publisher(Image, 'cam_high/image_raw', reliable)

        def publish() -> None:
            message = robot.image('cam_high')
            message.header.stamp = robot.stamp()
            publisher.publish(message)

        robot.node.create_timer(0.04, publish)
        bring_up(robot)
        assert 'cam_high' in policy.observations[0].images


def test_clock_that_jumps_back_holds_at_the_measured_positions(ros_domain_id):
    """Not at the start of the chunk, which is what a plan of the future says of the present."""
    with running(ros_domain_id, FakePolicy(), {'use_sim_time': True}) as (node, robot):
        publisher = robot.node.create_publisher(Clock, '/clock', 10)
        robot.clock_s = 1000.0

        def tick():
            robot.clock_s += 0.02
            publisher.publish(Clock(clock=to_time(robot.clock_s)))

        robot.node.create_timer(0.02, tick)
        wait_for(lambda: node.get_clock().now().nanoseconds, 'time')
        bring_up(robot)
        robot.positions = dict.fromkeys(robot.positions, 1.25)
        time.sleep(0.2)
        robot.silent.add('joint_states')  # none of the new time may come before the jump
        time.sleep(0.1)
        robot.clock_s = 100.0
        holds = wait_for(robot.holds, 'hold')
        assert {position for hold in holds for position in hold.points[0].positions} == {1.25}


def test_second_node_of_the_same_name_is_reported(ros_domain_id):
    with running(ros_domain_id, FakePolicy()) as (_, robot):
        wait_for(lambda: robot.level('policy') == 0, 'diagnostics')
        twin = Node('rmuscle', context=robot.node.context)
        try:
            wait_for(lambda: '2 nodes are named /rmuscle' in robot.text('policy'), 'warning')
        finally:
            twin.destroy_node()
        wait_for(lambda: robot.level('policy') == 0, 'end of the warning')
        assert 'nodes are named' not in robot.text('policy')
