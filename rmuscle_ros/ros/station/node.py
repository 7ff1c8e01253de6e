"""The node ``aloha_station``: the simulated ALOHA behind the topics of a real one."""

from __future__ import annotations

import sys
import threading
import traceback
from functools import partial
from typing import Any, NoReturn

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from rmuscle_ros.errors import ConfigError, ProcessError, RmuscleError, TrajectoryError
from rmuscle_ros.msg import EpisodeResult
from rmuscle_ros.ros.conversions import to_time
from rmuscle_ros.ros.process import ignore_stop_signals, start_rclpy, stop_event
from rmuscle_ros.ros.qos import command_qos, latched_qos, sensor_qos
from rmuscle_ros.ros.station import messages
from rmuscle_ros.ros.station.diagnostics import TrajectoryCount, loop_status, trajectory_status
from rmuscle_ros.ros.station.episode import Outcome
from rmuscle_ros.ros.station.loop import ARMS, StationLoop
from rmuscle_ros.ros.station.parameters import StationParameters
from rmuscle_ros.ros.station.schedule import StepTimes
from rmuscle_ros.sim.aloha import CAMERAS, JOINT_NAMES

_DIAGNOSTICS_PERIOD_S = 1.0


class StationNode(Node):
    """Publishes cameras and joint states, follows trajectories, judges episodes.

    Raises ConfigError for parameters that are out of range or contradict each other.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__('aloha_station', **arguments)
        self.failure = threading.Event()
        self._settings = StationParameters(self)
        self._config = self._settings.config
        self._times = StepTimes()
        self._counts = {arm: TrajectoryCount() for arm in ARMS}
        self._loop = StationLoop(self._config, self._ros_time_s, self, self._times)
        self._create_publishers()
        for arm in ARMS:
            self.create_subscription(
                JointTrajectory,
                f'{arm}_controller/joint_trajectory',
                partial(self._on_trajectory, arm),
                command_qos(),
            )
        self.create_service(Trigger, '~/reset', self._on_reset)
        self.create_timer(_DIAGNOSTICS_PERIOD_S, self._publish_diagnostics)

    def start(self) -> None:
        """Let the simulation run."""
        self._loop.start()
        self.get_logger().info(
            f'task {self._config.task}, images {self._config.image_size} x '
            f'{self._config.image_size} at {self._config.camera_rate_hz:g} Hz'
        )

    def stop(self) -> None:
        """Stop the simulation; nothing is published afterwards."""
        self._loop.stop()

    def joints(self, time_s: float, positions: np.ndarray, velocities: np.ndarray) -> None:
        """Called by the loop after each control step."""
        if self._clock_publisher is not None:
            self._clock_publisher.publish(Clock(clock=to_time(time_s)))
        self._joint_publisher.publish(
            messages.joint_state_message(JOINT_NAMES, time_s, positions, velocities)
        )

    def images(self, time_s: float, images: dict[str, np.ndarray]) -> None:
        """Called by the loop when the pictures of a moment are drawn."""
        for camera, image in images.items():
            self._image_publishers[camera].publish(messages.image_message(camera, time_s, image))

    def ended(self, time_s: float, outcome: Outcome) -> None:
        """Called by the loop once per episode."""
        self._result_publisher.publish(messages.result_message(self._config.task, time_s, outcome))
        self.get_logger().info(
            f'episode with seed {outcome.seed} ended after {outcome.steps} steps: '
            f'{"success" if outcome.success else "no success"}, highest reward '
            f'{outcome.max_reward} of 4'
        )

    def failed(self, error: Exception) -> None:
        """Called by the loop when it cannot go on."""
        if isinstance(error, RmuscleError):
            self.get_logger().fatal(str(error))
        else:
            self.get_logger().fatal(''.join(traceback.format_exception(error)))
        self.failure.set()

    def _create_publishers(self) -> None:
        camera_qos = sensor_qos(self._config.camera_reliability, depth=2)
        self._image_publishers = {
            camera: self.create_publisher(Image, f'{camera}/image_raw', camera_qos)
            for camera in CAMERAS
        }
        self._joint_publisher = self.create_publisher(JointState, 'joint_states', command_qos())
        self._result_publisher = self.create_publisher(
            EpisodeResult, '~/episode_result', latched_qos()
        )
        self._diagnostics_publisher = self.create_publisher(
            DiagnosticArray, '/diagnostics', command_qos()
        )
        self._clock_publisher = (
            self.create_publisher(Clock, '/clock', command_qos())
            if self._config.publish_clock
            else None
        )

    def _ros_time_s(self) -> float:
        return 1e-9 * float(self.get_clock().now().nanoseconds)

    def _on_trajectory(self, arm: str, message: JointTrajectory) -> None:
        try:
            self._loop.accept(arm, messages.trajectory_command(message))
        except TrajectoryError as error:
            self._counts[arm].reject(str(error))
            self.get_logger().warning(
                f'{arm}: trajectory rejected: {error}', throttle_duration_sec=1.0
            )
        else:
            self._counts[arm].accepted += 1

    def _on_reset(
        self,
        request: Trigger.Request,  # noqa: ARG002, the signature of a service callback
        response: Trigger.Response,
    ) -> Trigger.Response:
        config = self._settings.config
        try:
            self._loop.reset(config.seed, config.episode_length_s)
        except ProcessError as error:
            response.success, response.message = False, str(error)
            return response
        self.set_parameters([Parameter('seed', value=config.seed + 1)])
        response.success, response.message = True, f'seed {config.seed}'
        return response

    def _publish_diagnostics(self) -> None:
        array = DiagnosticArray()
        array.header.stamp = to_time(self._loop.now_s())
        array.status = [
            loop_status(self.get_fully_qualified_name(), self._times.take(), self._loop.schedule),
            trajectory_status(self.get_fully_qualified_name(), self._counts),
        ]
        self._diagnostics_publisher.publish(array)


def run(args: list[str] | None = None) -> int:
    """Spin until SIGINT or SIGTERM. 0 then, 1 when the simulation failed, 2 for bad parameters."""
    stop = stop_event()
    try:
        start_rclpy(args)
        node = StationNode()
    except ConfigError as error:
        print(f'aloha_station: {error}', file=sys.stderr)
        rclpy.try_shutdown()
        return 2
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    node.start()
    while not stop.is_set() and not node.failure.is_set():
        executor.spin_once(timeout_sec=0.1)
    ignore_stop_signals()
    node.stop()
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    return 1 if node.failure.is_set() else 0


def main(args: list[str] | None = None) -> NoReturn:
    sys.exit(run(args))
