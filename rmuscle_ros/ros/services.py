"""Where episodes begin and end: ``~/reset``, ``~/end_episode`` and ``~/instruction``."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.task import Future as RosFuture
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from rmuscle_ros.ros.interfaces import PolicyLike
from rmuscle_ros.ros.pilot import Pilot
from rmuscle_ros.ros.qos import latched_qos
from rmuscle_ros.ros.worker import Worker


class EpisodeServices:
    """Work in inactive and active state. The arm stops at once; the policy follows after its call.

    The answer of a service comes when the policy has done it; meanwhile the executor goes on.
    """

    def __init__(self, node: Node, policy: PolicyLike, pilot: Pilot, worker: Worker) -> None:
        self._node = node
        self._policy = policy
        self._pilot = pilot
        self._worker = worker
        self._services = [
            node.create_service(kind, name, callback, callback_group=_own_group())
            for kind, name, callback in (
                (Trigger, '~/reset', self._on_reset),
                (SetBool, '~/end_episode', self._on_end_episode),
            )
        ]
        self._instruction = node.create_subscription(
            String,
            '~/instruction',
            self._on_instruction,
            latched_qos(),
            callback_group=_own_group(),
        )

    def new_episode(self, why: str) -> Future:
        """Discard the running episode; the future is done when the policy has begun a new one."""
        self._node.get_logger().info(f'new episode: {why}')
        self._pilot.begin_episode()
        future = self._worker.submit(self._policy.reset)
        future.add_done_callback(self._log_failure)
        return future

    def destroy(self) -> None:
        for service in self._services:
            self._node.destroy_service(service)
        self._node.destroy_subscription(self._instruction)

    def _on_instruction(self, message: String) -> None:
        text = message.data.strip()
        if text != self._pilot.instruction:
            self._pilot.instruction = text
            self.new_episode(f'instruction {text!r}')

    async def _on_reset(
        self,
        request: Trigger.Request,  # noqa: ARG002, the signature of a service callback
        response: Trigger.Response,
    ) -> Trigger.Response:
        error = await self._done(self.new_episode('~/reset'))
        response.success = error is None
        response.message = 'a new episode begins' if error is None else f'reset failed: {error}'
        return response

    async def _on_end_episode(
        self, request: SetBool.Request, response: SetBool.Response
    ) -> SetBool.Response:
        """``success`` of the answer is false when a recorded episode was not admitted."""
        self._node.get_logger().info(f'episode ended, {"" if request.data else "no "}success')
        self._pilot.begin_episode()
        future = self._worker.submit(lambda: self._end_episode(request.data))
        future.add_done_callback(self._log_failure)
        error = await self._done(future)
        if error is None:
            response.success, response.message = future.result()
        else:
            response.success, response.message = False, f'end_episode failed: {error}'
        return response

    def _end_episode(self, success: bool) -> tuple[bool, str]:
        recorded = self._policy.status().recording
        end = self._policy.end_episode(success)
        return end.admitted or not recorded, end.detail

    async def _done(self, future: Future) -> BaseException | None:
        """Wait without blocking the executor; the exception of ``future``, if any."""
        bridge = RosFuture()
        executor = self._node.executor

        def wake(_: Future) -> None:
            bridge.set_result(None)
            # An executor looks at a waiting callback only when something wakes it.
            if executor is not None:
                executor.wake()

        future.add_done_callback(wake)
        await bridge
        return future.exception()

    def _log_failure(self, future: Future) -> None:
        error: Any = future.exception()
        if error is not None:
            self._node.get_logger().error(f'ending the episode failed: {error}')


def _own_group() -> MutuallyExclusiveCallbackGroup:
    return MutuallyExclusiveCallbackGroup()
