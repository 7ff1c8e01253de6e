"""What the node commands: action chunks, and one trajectory per controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode
from rclpy.lifecycle.publisher import LifecyclePublisher
from trajectory_msgs.msg import JointTrajectory

from rmuscle_ros.msg import ActionChunk as ActionChunkMessage
from rmuscle_ros.ros import conversions, qos
from rmuscle_ros.ros.schedule import Plan
from rmuscle_ros.ros.settings import Wiring
from rmuscle_ros.types import ActionChunk, PolicyInfo


@dataclass(frozen=True)
class _Controller:
    publisher: LifecyclePublisher
    joints: tuple[str, ...]
    columns: list[int]


class Commands:
    """Lifecycle publishers for chunks and trajectories; silent unless the node is active."""

    def __init__(
        self, node: LifecycleNode, wiring: Wiring, info: PolicyInfo, report: Callable[[str], None]
    ) -> None:
        self._node = node
        self._hold_time_s = wiring.settings.hold_time_s
        self._report = report
        self._publishers: list[LifecyclePublisher] = []
        self._chunks = self._publisher(ActionChunkMessage, '~/action_chunk')
        self._controllers = [
            _Controller(
                publisher=self._publisher(JointTrajectory, controller.topic),
                joints=controller.joints,
                columns=[info.joint_names.index(joint) for joint in controller.joints],
            )
            for controller in wiring.controllers.values()
        ]

    def send(self, chunk: ActionChunk, plan: Plan) -> None:
        """Trajectories first: the arms wait for them."""
        for controller in self._controllers:
            rows = plan.rows[:, controller.columns]
            controller.publisher.publish(
                conversions.trajectory_message(controller.joints, plan.start_s, plan.times_s, rows)
            )
        self._chunks.publish(conversions.chunk_message(chunk, plan.skipped_rows))

    def hold(self, positions: Mapping[str, float]) -> None:
        """Stop every controller at ``positions`` (joint name -> rad or m)."""
        for controller in self._controllers:
            own = {joint: float(positions[joint]) for joint in controller.joints}
            controller.publisher.publish(conversions.hold_message(own, self._hold_time_s))

    def flush(self, timeout_s: float) -> None:
        """Wait, within bounds, until the controllers have acknowledged what was sent."""
        for controller in self._controllers:
            controller.publisher.wait_for_all_acked(Duration(seconds=timeout_s))

    def destroy(self) -> None:
        for publisher in self._publishers:
            self._node.destroy_lifecycle_publisher(publisher)
        self._publishers.clear()

    def _publisher(self, kind: type, topic: str) -> LifecyclePublisher:
        publisher = self._node.create_lifecycle_publisher(
            kind,
            topic,
            qos.command_qos(),
            callback_group=MutuallyExclusiveCallbackGroup(),
            event_callbacks=qos.publisher_events(topic, self._report),
        )
        self._publishers.append(publisher)
        return publisher
