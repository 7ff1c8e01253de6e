"""The simulated station as a process, seen through its topics and services."""

import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import qos_profile_sensor_data
from ros_support import Peer, deployment, environment, start, wait_for
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rmuscle_ros.errors import ConfigError, ProcessError
from rmuscle_ros.msg import EpisodeResult
from rmuscle_ros.ros.conversions import image_array, to_duration, to_seconds
from rmuscle_ros.ros.qos import latched_qos
from rmuscle_ros.ros.station.loop import arm_joints
from rmuscle_ros.ros.station.node import StationNode
from rmuscle_ros.sim.aloha import CAMERAS, HOME, JOINT_NAMES

pytestmark = [pytest.mark.ros, pytest.mark.timeout(90)]

LEFT = arm_joints('follower_left')
HOME_BY_NAME = dict(zip(JOINT_NAMES, HOME, strict=True))


def domain(offset):
    return 1 + (os.getpid() * 7 + offset) % 101


class Station:
    """A running station, everything it publishes, and what a user would do to it."""

    def __init__(self, runner, peer):
        self.runner = runner
        self.peer = peer
        self.remote = peer.remote('/aloha_station')
        self.joints = peer.listen(JointState, 'joint_states', 100)
        self.results = peer.listen(EpisodeResult, '/aloha_station/episode_result', latched_qos())
        self.diagnostics = peer.listen(DiagnosticArray, '/diagnostics')
        self.images = {
            camera: peer.listen(Image, f'{camera}/image_raw', qos_profile_sensor_data)
            for camera in CAMERAS
        }
        self._left = peer.node.create_publisher(
            JointTrajectory, 'follower_left_controller/joint_trajectory', 10
        )
        wait_for(lambda: self.joints, 'joint states', check=runner.check)
        wait_for(lambda: self._left.get_subscription_count(), 'the controller')

    def reset(self, seed):
        """The seed that the station says it took."""
        self.remote.set_parameters({'seed': seed})
        response = self.remote.call('reset', Trigger.Request())
        assert response.success
        self.joints.clear()
        wait_for(lambda: len(self.joints) > 1, 'joint states after the reset')
        return response.message

    def send(self, message):
        self._left.publish(message)

    def position(self, joint):
        latest = self.joints[-1]
        return dict(zip(latest.name, latest.position, strict=True))[joint]

    def counts(self):
        """Accepted and rejected trajectories of the left arm so far; None before diagnostics."""
        for message in reversed(self.diagnostics):
            for status in message.status:
                values = {item.key: item.value for item in status.values}
                if 'follower_left accepted' in values:
                    return int(values['follower_left accepted']), int(
                        values['follower_left rejected']
                    )
        return None

    def picture(self):
        """The next picture of cam_high."""
        images = self.images['cam_high']
        count = len(images)
        # The first one may show the moment before.
        wait_for(lambda: len(images) > count + 1, 'a picture')
        return image_array(images[-1])


@pytest.fixture(scope='module')
def station(tmp_path_factory):
    logs = tmp_path_factory.mktemp('station')
    runner = start([deployment().station()], environment(domain(60)), logs)
    peer = Peer(domain(60), runner.check)
    yield Station(runner, peer)
    peer.close()
    assert runner.stop() == {'aloha_station': 0}
    assert 'Traceback' not in (logs / 'aloha_station.log').read_text()


def trajectory(times_s=(0.4,), waist_rad=(0.3,), joints=LEFT, **changes):
    """Of the left arm: all joints stay at home but the waist."""
    message = JointTrajectory(joint_names=list(joints))
    for time_s, rad in zip(times_s, waist_rad, strict=True):
        target = dict(HOME_BY_NAME, follower_left_waist=rad)
        point = JointTrajectoryPoint(
            positions=[target.get(joint, 0.0) for joint in joints],
            time_from_start=to_duration(time_s),
        )
        message.points.append(point)
    for name, value in changes.items():
        setattr(message.points[-1], name, value)
    return message


def test_joint_states_carry_all_joints_at_50_hz(station):
    station.reset(0)
    wait_for(lambda: len(station.joints) > 60, 'a second of joint states')
    stamps = np.array([to_seconds(message.header.stamp) for message in station.joints])
    assert station.joints[-1].name == list(JOINT_NAMES)
    assert len(station.joints[-1].velocity) == len(JOINT_NAMES)
    assert np.median(np.diff(stamps)) == pytest.approx(0.02, abs=0.001)
    assert abs(time.time() - stamps[-1]) < 1.0


def test_all_cameras_show_the_same_moment(station):
    wait_for(lambda: all(len(images) > 2 for images in station.images.values()), 'images')
    for camera, images in station.images.items():
        message = images[-1]
        assert (message.encoding, message.width, message.height) == ('rgb8', 96, 96)
        assert message.header.frame_id == camera
    stamps = [{to_seconds(m.header.stamp) for m in images} for images in station.images.values()]
    assert len(set.intersection(*stamps)) >= 2


def test_an_accepted_trajectory_moves_its_arm_and_is_held_at_its_end(station):
    station.reset(1)
    station.send(trajectory())
    wait_for(lambda: abs(station.position('follower_left_waist') - 0.3) < 0.02, 'the waist')
    time.sleep(0.5)
    assert station.position('follower_left_waist') == pytest.approx(0.3, abs=0.02)
    assert station.position('follower_right_waist') == pytest.approx(0.0, abs=0.02)


def test_a_reset_brings_the_arms_home_and_forgets_their_trajectories(station):
    station.reset(1)
    station.send(trajectory(times_s=(0.2, 20.0), waist_rad=(0.3, 0.5)))
    wait_for(lambda: station.position('follower_left_waist') > 0.2, 'the waist to move')
    station.reset(1)
    time.sleep(0.3)
    assert station.position('follower_left_waist') == pytest.approx(0.0, abs=0.01)


def test_bad_trajectories_are_rejected_counted_and_move_nothing(station):
    station.reset(2)
    past = trajectory()
    past.header.stamp.sec = 1
    bad = [
        JointTrajectory(joint_names=list(LEFT)),
        trajectory(joints=()),
        trajectory(joints=(*LEFT[:-1], 'elbow')),
        trajectory(joints=LEFT[:-1]),
        trajectory(times_s=(0.4, 0.4), waist_rad=(0.1, 0.3)),
        trajectory(positions=[0.3]),
        trajectory(positions=[float('nan')] * len(LEFT)),
        trajectory(velocities=[1.0] * len(LEFT)),
        past,
    ]
    station.diagnostics.clear()
    accepted, rejected = wait_for(station.counts, 'diagnostics')
    for message in bad:
        station.send(message)
    wait_for(lambda: station.counts() == (accepted, rejected + len(bad)), f'{len(bad)} rejections')
    assert station.position('follower_left_waist') == pytest.approx(0.0, abs=0.01)
    warnings = [s.message for m in station.diagnostics for s in m.status if s.level == b'\x01']
    assert any('follower_left: rejected: ' in text for text in warnings)


def test_each_reset_takes_the_next_seed_unless_one_is_set(station):
    assert station.reset(5) == 'seed 5'
    assert station.remote.get_parameters(['seed']) == {'seed': 6}
    assert station.remote.call('reset', Trigger.Request()).message == 'seed 6'


def test_the_seed_decides_about_the_scene(station):
    places = []
    for seed in (7, 8, 7):
        station.reset(seed)
        places.append(cube_pixel(station.picture()))
    assert np.linalg.norm(places[0] - places[1]) > 3.0
    assert np.linalg.norm(places[0] - places[2]) < 1.0


def test_an_episode_without_success_ends_once_and_late_listeners_learn_of_it(station):
    station.remote.set_parameters({'episode_length_s': 0.5})
    station.reset(9)
    time.sleep(0.7)
    station.results.clear()
    station.send(trajectory())
    wait_for(lambda: station.results, 'the result')
    time.sleep(0.7)
    (result,) = station.results
    assert (result.seed, result.success, result.task) == (9, False, 'transfer_cube')
    assert 24 <= result.steps <= 27
    late = station.peer.listen(EpisodeResult, '/aloha_station/episode_result', latched_qos())
    assert wait_for(lambda: late, 'the latched result')[0].seed == 9
    station.remote.set_parameters({'episode_length_s': 8.0})


@pytest.mark.parametrize(
    ('name', 'value', 'reason'),
    [
        ('seed', -1, 'out of range.*Min: 0'),
        ('episode_length_s', 0.0, 'out of range.*Min: 0.1'),
        ('task', 'lift_cube', 'task: fixed at start'),
    ],
)
def test_bad_parameter_changes_are_refused_with_the_reason(station, name, value, reason):
    with pytest.raises(ConfigError, match=reason):
        station.remote.set_parameters({name: value})


@pytest.mark.parametrize(
    'numbers',
    [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 20],
    ids=['SIGINT', 'SIGTERM', 'impatience'],
)
def test_a_signal_ends_it_with_code_0_and_no_traceback(tmp_path, ros_domain_id, numbers):
    runner = start([deployment().station()], environment(ros_domain_id), tmp_path)
    log = tmp_path / 'aloha_station.log'
    wait_for(lambda: 'task transfer_cube' in log.read_text(), 'the start', check=runner.check)
    time.sleep(1.0)  # into the simulation
    for number in numbers:
        os.kill(runner.pids()['aloha_station'], number)
        time.sleep(0.1)
    with pytest.raises(ProcessError, match='exit code 0'):
        wait_for(runner.check, 'the end')
    assert 'Traceback' not in log.read_text()


def test_a_simulation_that_cannot_start_ends_the_process_with_the_reason(tmp_path, ros_domain_id):
    env = environment(ros_domain_id, MUJOCO_GL='nonsense')
    runner = start([deployment().station()], env, tmp_path)
    log = tmp_path / 'aloha_station.log'
    with pytest.raises(ProcessError, match=r'(?s)exit code 1.*MUJOCO_GL'):
        wait_for(runner.check, 'the end')
    assert 'Traceback' not in log.read_text()


def test_simulated_time_can_run_faster_and_is_published(tmp_path, ros_domain_id):
    values = tmp_path / 'fast.yaml'
    values.write_text('/**: {ros__parameters: {real_time_factor: 4.0, camera_rate_hz: 1.0}}\n')
    fast = deployment(station_params_file=values, use_sim_time=True)
    runner = start([fast.station()], environment(ros_domain_id), tmp_path)
    peer = Peer(ros_domain_id, runner.check)
    clock = peer.listen(Clock, '/clock')
    joints = peer.listen(JointState, 'joint_states')
    wait_for(lambda: clock and joints, 'the clock', check=runner.check)
    clock.clear()
    time.sleep(1.0)
    passed_s = to_seconds(clock[-1].clock) - to_seconds(clock[0].clock)
    assert passed_s == pytest.approx(4.0, rel=0.2)
    assert to_seconds(joints[-1].header.stamp) == pytest.approx(
        to_seconds(clock[-1].clock), abs=0.2
    )
    peer.close()
    assert runner.stop() == {'aloha_station': 0}


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['camera_rate_hz:=1000.0'], 'camera_rate_hz: found 1000.0, expected a value from'),
        (['task:=fly'], "task: found 'fly', expected one of transfer_cube"),
        (['real_time_factor:=2.0'], 'real_time_factor: found 2 with publish_clock false'),
        (['image_size:=big'], "image_size: found 'big', expected a int"),
    ],
)
def test_bad_start_parameters_are_refused_by_name(ros_domain_id, arguments, message):
    with pytest.raises(ConfigError, match=message):
        construct(ros_domain_id, arguments)


def test_whole_numbers_are_taken_where_fractions_are_expected(ros_domain_id):
    node = construct(ros_domain_id, ['camera_rate_hz:=5'])
    assert node.get_parameter('camera_rate_hz').value == 5.0


def cube_pixel(image):
    """Where the red cube is in a picture [H, W, 3]: row and column."""
    red, green, blue = image.astype(int).transpose(2, 0, 1)
    places = np.argwhere(red > 2 * np.maximum(green, blue) + 20)
    assert len(places) > 10
    return places.mean(axis=0)


def construct(domain_id, arguments):
    """A station that is not started, with these parameters."""
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain_id)
    options = [part for text in arguments for part in ('-p', text)]
    try:
        node = StationNode(context=context, cli_args=['--ros-args', *options])
        node.destroy_node()
        return node
    finally:
        rclpy.shutdown(context=context)
