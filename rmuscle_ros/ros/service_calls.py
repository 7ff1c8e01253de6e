"""Blocking service calls from a thread that does not spin; another thread spins the node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python

from rmuscle_ros.errors import ConfigError, ProcessError

PARAMETERS = {'get_parameters': GetParameters, 'set_parameters': SetParameters}
LIFECYCLE = {'get_state': GetState, 'change_state': ChangeState}

_CHECK_INTERVAL_S = 0.1
_SHORT_S = 20.0
_REPEAT_S = 3.0
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

    def client(self, kind: type, name: str) -> Any:
        """A client for the service ``name``."""
        return self._node.create_client(kind, name)

    def call(
        self, client: Any, request: Any, timeout_s: float, repeat_s: float | None = None
    ) -> Any:
        """The response, or ProcessError when there is none within ``timeout_s``.

        repeat_s: send the request again this often, for one that may be carried out twice. The
            answer is lost when the server has not discovered the client's side yet
            (ros2/rmw_fastrtps issue 842), which only happens to young clients.
        """
        end_s = time.monotonic() + timeout_s
        name = client.srv_name
        self.wait_until(client.service_is_ready, f'service {name}', timeout_s)
        answered = threading.Event()
        futures: list[Any] = []

        def ask() -> None:
            futures.append(client.call_async(request))
            futures[-1].add_done_callback(lambda _: answered.set())

        def has_answer() -> bool:
            asked_s = time.monotonic() - begin_s
            if repeat_s is not None and asked_s > repeat_s * len(futures):
                ask()
            return answered.is_set()

        begin_s = time.monotonic()
        ask()
        try:
            left_s = max(0.0, end_s - begin_s)
            self.wait_until(has_answer, f'the answer of {name}', left_s, answered.wait)
            return next(future for future in futures if future.done()).result()
        finally:
            for future in futures:
                client.remove_pending_request(future)

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
    """The node ``full_name``, such as ``/rmuscle``, through its services.

    services: name -> type of its private services (``~/name``) that will be called, ``PARAMETERS``
        and ``LIFECYCLE`` among them. Their clients are made at once: one that is older than the
        first call by more than discovery takes loses no answer.
    """

    def __init__(
        self, caller: ServiceCaller, full_name: str, services: Mapping[str, type]
    ) -> None:
        self.full_name = full_name
        self._caller = caller
        self._clients = {
            name: caller.client(kind, f'{full_name}/{name}') for name, kind in services.items()
        }

    def call(
        self,
        name: str,
        request: Any,
        timeout_s: float = _SHORT_S,
        repeat_s: float | None = None,
    ) -> Any:
        """Call the service ``~/name``; see ``ServiceCaller.call``."""
        return self._caller.call(self._clients[name], request, timeout_s, repeat_s)

    def state(self, timeout_s: float = _SHORT_S) -> int:
        """The lifecycle state, one of ``lifecycle_msgs.msg.State.PRIMARY_STATE_*``."""
        answer = self.call('get_state', GetState.Request(), timeout_s, _REPEAT_S)
        return int(answer.current_state.id)

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
        response = self.call('change_state', request, timeout_s)
        if not response.success:
            raise ProcessError(
                f'{self.full_name} did not {transition}: from state {before} it went to '
                f'{self.state()}, expected {goal}; its log says why'
            )

    def get_parameters(self, names: list[str], timeout_s: float = _SHORT_S) -> dict[str, Any]:
        """Values by name; None for one that is not set."""
        request = GetParameters.Request(names=names)
        values = self.call('get_parameters', request, timeout_s, _REPEAT_S).values
        if len(values) != len(names):
            raise ConfigError(f'{self.full_name} does not have all of {", ".join(names)}')
        return {n: parameter_value_to_python(v) for n, v in zip(names, values, strict=True)}

    def set_parameters(self, values: dict[str, Any]) -> None:
        """Set all of them; ConfigError with the node's reason when it refuses one."""
        parameters: list[ParameterMessage] = [
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ]
        request = SetParameters.Request(parameters=parameters)
        results = self.call('set_parameters', request, repeat_s=_REPEAT_S).results
        for (name, value), result in zip(values.items(), results, strict=True):
            if not result.successful:
                raise ConfigError(f'{self.full_name} refuses {name} = {value!r}: {result.reason}')
