"""What the recorder keeps of an episode, seen through real topics."""

import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from ros_support import Peer, wait_for
from sensor_msgs.msg import Image, JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rmuscle_ros.msg import EpisodeResult
from rmuscle_ros.ros.conversions import to_duration
from rmuscle_ros.ros.demo.plan import PlannedEpisode
from rmuscle_ros.ros.demo.recorder import FRAMES_PER_EPISODE, Recorder
from rmuscle_ros.ros.qos import latched_qos
from rmuscle_ros.ros.station.loop import arm_joints
from rmuscle_ros.ros.station.messages import image_message, joint_state_message
from rmuscle_ros.sim.aloha import CAMERAS, HOME, JOINT_NAMES

pytestmark = [pytest.mark.ros, pytest.mark.timeout(60)]

LENGTH_S = 5.0
PLANNED = PlannedEpisode('cached', 0, 42)


class Stage:
    """A recorder, and the station and node it listens to, played by the test."""

    def __init__(self, peer):
        self.recorder = Recorder(peer.node, '/aloha_station', '/rmuscle', LENGTH_S)
        create = peer.node.create_publisher
        self.joints = create(JointState, 'joint_states', 100)
        self.images = {c: create(Image, f'{c}/image_raw', 10) for c in CAMERAS}
        self.left = create(JointTrajectory, 'follower_left_controller/joint_trajectory', 10)
        self.result = create(EpisodeResult, '/aloha_station/episode_result', latched_qos())
        self.diagnostics = create(DiagnosticArray, '/diagnostics', 10)
        publishers = [self.joints, *self.images.values(), self.left, self.diagnostics]
        wait_for(lambda: all(p.get_subscription_count() for p in publishers), 'the topics')
        self._clock = peer.node.get_clock()

    def now_s(self):
        return 1e-9 * self._clock.now().nanoseconds

    def send_joints(self, time_s, position):
        positions = np.full(len(JOINT_NAMES), position)
        self.joints.publish(joint_state_message(JOINT_NAMES, time_s, positions, positions))

    def send_pictures(self, time_s, moment, cameras=CAMERAS):
        """Pictures whose pixels tell camera and moment."""
        for camera in cameras:
            picture = np.full((4, 6, 3), (CAMERAS.index(camera), moment, 0), np.uint8)
            self.images[camera].publish(image_message(camera, time_s, picture))

    def finish(self, condition):
        """The record, once ``condition`` holds for what has been received."""
        wait_for(lambda: condition(self.recorder._take), 'the messages', 5.0)
        return self.recorder.finish(PLANNED, None, '')


@pytest.fixture
def stage(ros_domain_id):
    peer = Peer(ros_domain_id)
    yield Stage(peer)
    peer.close()


def test_measured_and_commanded_joints_share_their_clock(stage):
    stage.recorder.begin()
    begin_s = stage.now_s()
    target = HOME[: len(arm_joints('follower_left'))] + 0.5
    message = JointTrajectory(joint_names=arm_joints('follower_left'))
    message.points = [
        JointTrajectoryPoint(positions=target, time_from_start=to_duration(2.0)),
    ]
    stage.left.publish(message)
    wait_for(lambda: stage.recorder._take.chunk_starts_s, 'the trajectory')
    for second in (1.0, 2.5):
        stage.send_joints(begin_s + second, second)
    joints = stage.finish(lambda take: len(take.times_s) == 2).joints
    assert joints.times_s == pytest.approx([1.0, 2.5], abs=0.1)
    np.testing.assert_allclose(joints.measured, [[1.0] * 14, [2.5] * 14])
    np.testing.assert_allclose(joints.commanded[0, 0], 0.25, atol=0.05)
    np.testing.assert_allclose(joints.commanded[1, :7], target)
    np.testing.assert_allclose(joints.commanded[:, 7:], [HOME[7:]] * 2)
    assert len(joints.chunk_starts_s) == 1


def test_joint_states_from_before_the_episode_are_left_out(stage):
    stage.recorder.begin()
    stage.send_joints(stage.now_s() - 1.0, 1.0)
    stage.send_joints(stage.now_s() + 1.0, 2.0)
    joints = stage.finish(lambda take: take.times_s).joints
    np.testing.assert_allclose(joints.measured[:, 0], [2.0])


def test_frames_are_of_one_moment_and_spread_over_the_episode(stage):
    stage.recorder.begin()
    begin_s = stage.now_s()
    for moment, time_s in enumerate(np.arange(0.1, 5.5, 0.1)):
        cameras = CAMERAS[:2] if moment % 2 == 0 else CAMERAS  # every other third one is lost
        stage.send_pictures(begin_s + time_s, moment, cameras)
        time.sleep(0.02)  # sensor data is not queued for long
    frames = stage.finish(lambda take: len(take.frames) == FRAMES_PER_EPISODE).frames
    assert [frame.time_s for frame in frames] == pytest.approx([0.2, 1, 2, 3, 4, 5], abs=0.25)
    for frame in frames:
        assert [frame.images[camera][0, 0, 0] for camera in CAMERAS] == [0, 1, 2]
        assert len({frame.images[camera][0, 0, 1] for camera in CAMERAS}) == 1


def test_only_the_verdict_on_the_scene_at_hand_counts(stage):
    stage.recorder.begin()
    stage.result.publish(EpisodeResult(seed=41, success=True, max_reward=4))
    wait_for(lambda: stage.recorder._take.result, 'the result')
    assert stage.recorder.result(PLANNED.seed) is None
    stage.result.publish(EpisodeResult(seed=42, success=False, max_reward=1))
    wait_for(lambda: stage.recorder.result(PLANNED.seed), 'the result')
    record = stage.finish(lambda take: True)
    assert (record.success, record.max_reward) == (False, 1)


def test_without_a_verdict_success_is_unknown(stage):
    stage.recorder.begin()
    record = stage.finish(lambda take: True)
    assert (record.success, record.max_reward) == (None, None)


def test_errors_become_incidents_and_the_station_tells_its_lag(stage):
    stage.recorder.begin()

    def status(name, level, **values):
        pairs = [KeyValue(key=key.replace('_', ' '), value=text) for key, text in values.items()]
        return DiagnosticStatus(name=name, level=level, message='words', values=pairs)

    error = status('/rmuscle: observations', DiagnosticStatus.ERROR)
    policy = status('/rmuscle: policy', DiagnosticStatus.OK, model='tiny')
    loop = status('/aloha_station: control loop', DiagnosticStatus.OK)
    loop.values = [KeyValue(key='lag max (ms)', value='3.50')]
    for _ in range(3):
        stage.diagnostics.publish(DiagnosticArray(status=[error, policy, loop]))
    facts = wait_for(
        lambda: (found := stage.recorder.facts()).station_lag_ms and found, 'diagnostics'
    )
    assert facts.incidents == ('rmuscle: observations: words',)
    assert facts.policy == {'model': 'tiny'}
    assert facts.station_lag_ms == 3.5
