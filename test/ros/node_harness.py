"""A robot made of topics around a running node ``rmuscle``."""

from __future__ import annotations

import array
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rclpy
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from fake_policy import CAMERAS, JOINTS, FakePolicy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from rmuscle_ros.msg import ActionChunk, CacheStatus
from rmuscle_ros.ros import qos
from rmuscle_ros.ros.conversions import to_time
from rmuscle_ros.ros.node import RmuscleNode

PARAMETERS: dict[str, Any] = {
    'cameras': list(CAMERAS),
    'camera_topics': [f'{name}/image_raw' for name in CAMERAS],
    'controllers.names': ['left', 'right'],
    'controllers.left.topic': 'left/joint_trajectory',
    'controllers.left.joints': ['left_a', 'left_b'],
    'controllers.right.topic': 'right/joint_trajectory',
    'controllers.right.joints': ['right_b', 'right_a'],
    'instruction': 'lift',
    'execution_horizon': 10,
    'blend_rows': 3,
    'allow_cpu': True,
    'max_image_age_s': 0.5,
    'max_joint_age_s': 0.5,
}
TRANSITIONS = {
    'configure': Transition.TRANSITION_CONFIGURE,
    'activate': Transition.TRANSITION_ACTIVATE,
    'deactivate': Transition.TRANSITION_DEACTIVATE,
    'cleanup': Transition.TRANSITION_CLEANUP,
}


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 5.0) -> Any:
    """The first true value of ``condition``."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f'{what}: not within {timeout_s} s')


def is_hold(message: JointTrajectory) -> bool:
    return len(message.points) == 1


class Robot:
    """Publishes cameras and joint states, keeps what the node sends.

    joint_names, positions, encoding: what the messages say. silent: sources that send nothing.
    """

    def __init__(self, context: Context, target: str = '/rmuscle') -> None:
        self.node = Node('robot', context=context)
        self.target = target
        self.clock_s: float | None = None
        self.joint_names = list(JOINTS)
        self.positions = {name: 0.1 * index for index, name in enumerate(JOINTS)}
        self.silent: set[str] = set()
        self.encoding = 'rgb8'
        self.trajectories: dict[str, list[tuple[float, JointTrajectory]]] = {}
        self.chunks: list[ActionChunk] = []
        self.statuses: list[CacheStatus] = []
        self.diagnostics: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        sensor = qos.sensor_qos('best_effort', 1)
        self._cameras = {
            name: self.node.create_publisher(Image, f'{name}/image_raw', sensor)
            for name in CAMERAS
        }
        self._joints = self.node.create_publisher(JointState, 'joint_states', sensor)
        self.instruction = self.node.create_publisher(
            String, f'{target}/instruction', qos.latched_qos()
        )
        for arm in ('left', 'right'):
            self._record_trajectories(arm)
        reliable = qos.command_qos()
        self.node.create_subscription(
            ActionChunk, f'{target}/action_chunk', self.chunks.append, reliable
        )
        self.node.create_subscription(
            CacheStatus, f'{target}/status', self.statuses.append, reliable
        )
        self.node.create_subscription(
            DiagnosticArray, '/diagnostics', self._on_diagnostics, reliable
        )
        self.node.create_timer(0.04, self._publish_images)
        self.node.create_timer(0.02, self._publish_joints)

    def holds(self, arm: str = 'left') -> list[JointTrajectory]:
        return [message for _, message in self.trajectories[arm] if is_hold(message)]

    def level(self, component: str) -> int:
        """Newest diagnostic level of one component; -1 before the first."""
        found = self.diagnostics.get(f'{self.target}: {component}')
        return -1 if found is None else int.from_bytes(found.level, 'little')

    def text(self, component: str) -> str:
        found = self.diagnostics.get(f'{self.target}: {component}')
        return '' if found is None else found.message

    def call(self, kind: type, name: str, request: Any = None, timeout_s: float = 10.0) -> Any:
        """The answer of the node's service ``name``."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, f'{self.target}/{name}')
        client = self._clients[name]
        assert client.wait_for_service(timeout_s), f'no service {name}'
        answered = threading.Event()
        future = client.call_async(kind.Request() if request is None else request)
        future.add_done_callback(lambda _: answered.set())
        assert answered.wait(timeout_s), f'no answer of {name}'
        return future.result()

    def change(self, transition: str) -> bool:
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        return self.call(ChangeState, 'change_state', request).success

    def state(self) -> str:
        return self.call(GetState, 'get_state').current_state.label

    def stamp(self) -> Time:
        """Now: by the system's clock, or by the simulated one that a test sets."""
        if self.clock_s is not None:
            return to_time(self.clock_s)
        return self.node.get_clock().now().to_msg()

    def image(self, name: str) -> Image:
        message = Image(height=4, width=6, step=18, encoding=self.encoding)
        message.header.frame_id = name
        message.data = array.array('B', range(72))
        return message

    def _publish_images(self) -> None:
        stamp = self.stamp()
        for name, publisher in self._cameras.items():
            if name not in self.silent:
                message = self.image(name)
                message.header.stamp = stamp
                publisher.publish(message)

    def _publish_joints(self) -> None:
        if 'joint_states' in self.silent:
            return
        message = JointState(name=self.joint_names)
        message.header.stamp = self.stamp()
        message.position = [self.positions.get(name, 9.0) for name in self.joint_names]
        self._joints.publish(message)

    def _record_trajectories(self, arm: str) -> None:
        kept = self.trajectories[arm] = []
        self.node.create_subscription(
            JointTrajectory,
            f'{arm}/joint_trajectory',
            lambda message: kept.append((time.monotonic(), message)),
            qos.command_qos(100),
        )

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        self.diagnostics.update({status.name: status for status in message.status})


class _Spinning:
    def __init__(self, node: Node, context: Context) -> None:
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        self._node = node
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, name=f'spin {node.get_name()}')
        self._thread.start()

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10.0)
        assert not self._thread.is_alive()
        self._executor.shutdown()
        self._node.destroy_node()


@contextmanager
def robot_only(domain_id: int, target: str = '/rmuscle') -> Iterator[Robot]:
    """The robot, for a node that runs in another process."""
    context = Context()
    rclpy.init(context=context, domain_id=domain_id)
    robot = Robot(context, target)
    spinning = _Spinning(robot.node, context)
    try:
        yield robot
    finally:
        spinning.stop()
        rclpy.try_shutdown(context=context)


@contextmanager
def running(
    domain_id: int, policy: FakePolicy, parameters: dict[str, Any] | None = None
) -> Iterator[tuple[RmuscleNode, Robot]]:
    """A node with ``policy``, unconfigured, and a robot, each spun by a thread of its own."""
    context = Context()
    rclpy.init(context=context, domain_id=domain_id)
    values = {**PARAMETERS, **(parameters or {})}
    node = RmuscleNode(
        lambda config: policy,
        context=context,
        parameter_overrides=[Parameter(name, value=value) for name, value in values.items()],
    )
    spinning = [_Spinning(node, context)]
    robot = Robot(context)
    spinning.append(_Spinning(robot.node, context))
    try:
        yield node, robot
    finally:
        for one in reversed(spinning):
            one.stop()
        rclpy.try_shutdown(context=context)
