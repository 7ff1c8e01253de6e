"""Blocking service calls from a thread that does not spin; another thread spins the node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python

from rmuscle_ros.errors import ConfigError, ProcessError

_CHECK_INTERVAL_S = 0.2
_SHORT_S = 10.0
_TRANSITIONS = {
    'configure': (Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE),
    'activate': (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE),
    'deactivate': (Transition.TRANSITION_DEACTIVATE, State.PRIMARY_STATE_INACTIVE),
    'cleanup': (Transition.TRANSITION_CLEANUP, State.PRIMARY_STATE_UNCONFIGURED),
}


class ServiceCaller:
    """Calls services of other nodes through ``node``.

    check: called while an answer is awaited; it may raise, when a process has died for example.
    waiting: told what is awaited and for how many seconds already, about once per second.
    """

    def __init__(
        self,
        node: Node,
        check: Callable[[], None],
        waiting: Callable[[str, float], None],
    ) -> None:
        self._node = node
        self._check = check
        self._waiting = waiting
        self._clients: dict[tuple[type, str], Any] = {}

    def call(self, kind: type, name: str, request: Any, timeout_s: float = _SHORT_S) -> Any:
        """The response, or ProcessError when there is none within ``timeout_s``."""
        key = (kind, name)
        if key not in self._clients:
            self._clients[key] = self._node.create_client(kind, name)
        client = self._clients[key]
        end_s = time.monotonic() + timeout_s
        self.wait_until(client.service_is_ready, f'service {name}', timeout_s)
        answered = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: answered.set())
        left_s = max(0.0, end_s - time.monotonic())
        self.wait_until(answered.is_set, f'the answer of {name}', left_s, answered.wait)
        return future.result()

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        timeout_s: float,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Return once ``condition`` holds; ProcessError when it does not within ``timeout_s``."""
        begin_s = time.monotonic()
        told_s = 0.0
        while not condition():
            self._check()
            waited_s = time.monotonic() - begin_s
            if waited_s > timeout_s:
                raise ProcessError(
                    f'{what}: nothing within {timeout_s:.0f} s; see the log files of the nodes'
                )
            if waited_s - told_s >= 1.0:
                told_s = waited_s
                self._waiting(what, waited_s)
            sleep(_CHECK_INTERVAL_S)


class RemoteNode:
    """Parameters and lifecycle of the node ``full_name``, such as ``/rmuscle``."""

    def __init__(self, caller: ServiceCaller, full_name: str) -> None:
        self.full_name = full_name
        self._caller = caller

    def call(self, kind: type, name: str, request: Any, timeout_s: float = _SHORT_S) -> Any:
        """Call the node's private service ``~/name``."""
        return self._caller.call(kind, f'{self.full_name}/{name}', request, timeout_s)

    def state(self, timeout_s: float = _SHORT_S) -> int:
        """The lifecycle state, one of ``lifecycle_msgs.msg.State.PRIMARY_STATE_*``."""
        return int(
            self.call(GetState, 'get_state', GetState.Request(), timeout_s).current_state.id
        )

    def change_state(self, transition: str, timeout_s: float = _SHORT_S) -> None:
        """``configure``, ``activate``, ``deactivate`` or ``cleanup``; nothing if already there.

        Raises ProcessError when the node refuses or fails; its log has the traceback.
        """
        number, goal = _TRANSITIONS[transition]
        before = self.state(timeout_s)
        if before == goal:
            return
        request = ChangeState.Request()
        request.transition.id = number
        response = self.call(ChangeState, 'change_state', request, timeout_s)
        if not response.success:
            raise ProcessError(
                f'{self.full_name} did not {transition}: from state {before} it went to '
                f'{self.state()}, expected {goal}; its log says why'
            )

    def get_parameters(self, names: list[str]) -> dict[str, Any]:
        """Values by name; None for one that is not set."""
        request = GetParameters.Request(names=names)
        values = self.call(GetParameters, 'get_parameters', request).values
        if len(values) != len(names):
            raise ConfigError(f'{self.full_name} does not have all of {", ".join(names)}')
        return {n: parameter_value_to_python(v) for n, v in zip(names, values, strict=True)}

    def set_parameters(self, values: dict[str, Any]) -> None:
        """Set all of them; ConfigError with the node's reason when it refuses one."""
        parameters: list[ParameterMessage] = [
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ]
        request = SetParameters.Request(parameters=parameters)
        results = self.call(SetParameters, 'set_parameters', request).results
        for (name, value), result in zip(values.items(), results, strict=True):
            if not result.successful:
                raise ConfigError(f'{self.full_name} refuses {name} = {value!r}: {result.reason}')
