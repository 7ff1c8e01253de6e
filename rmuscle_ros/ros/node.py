"""The lifecycle node ``rmuscle``: a policy between the robot's sensors and its controllers.

========== ==============================================================================
configure  load and warm up the policy, create its topics and services (``session``)
activate   take in observations, start the inference thread (``pilot``, ``worker``)
deactivate stop the arm with a hold command, then the thread; bounded in time
cleanup    release everything; refused while a call has not ended
========== ==============================================================================
"""

from __future__ import annotations

import functools
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from rmuscle_ros.config import PolicyConfig
from rmuscle_ros.errors import ConfigError, SetupError
from rmuscle_ros.ros import diagnostics, qos
from rmuscle_ros.ros.faults import POLICY, Faults, Level
from rmuscle_ros.ros.interfaces import PolicyLike
from rmuscle_ros.ros.parameters import Parameters
from rmuscle_ros.ros.process import ignore_stop_signals, start_rclpy, stop_event
from rmuscle_ros.ros.session import PolicyFactory, Session

SUCCESS = TransitionCallbackReturn.SUCCESS
FAILURE = TransitionCallbackReturn.FAILURE
ERROR = TransitionCallbackReturn.ERROR
FINALIZED = 'finalized'

Transition = Callable[['RmuscleNode', LifecycleState], TransitionCallbackReturn]


def load_policy(config: PolicyConfig) -> PolicyLike:
    """The policy of the library; SetupError when this interpreter lacks what it needs."""
    try:
        from rmuscle_ros.policy import Policy
    except ImportError as error:
        raise SetupError(
            f'cannot import the policy: {error}. The interpreter is {sys.executable}; start the '
            'node from the environment that has PyTorch, such as the .venv that make setup builds'
        ) from error
    return Policy.from_config(config)


def transition(on_exception: TransitionCallbackReturn) -> Callable[[Transition], Transition]:
    """Log the traceback of a transition that raises, which rclpy does not, and return a result."""

    def decorate(callback: Transition) -> Transition:
        @functools.wraps(callback)
        def run(node: RmuscleNode, state: LifecycleState) -> TransitionCallbackReturn:
            try:
                return callback(node, state)
            except Exception as error:  # noqa: BLE001, reported in full
                node.get_logger().error(
                    f'{callback.__name__} failed: {error}\n{traceback.format_exc()}'
                )
                return on_exception

        return run

    return decorate


class RmuscleNode(LifecycleNode):
    """policy_factory: makes the policy at configure. ConfigError for a bad start parameter."""

    def __init__(self, policy_factory: PolicyFactory = load_policy, **arguments: Any) -> None:
        super().__init__('rmuscle', **arguments)
        self._policy_factory = policy_factory
        self._session: Session | None = None
        self._state = 'unconfigured'
        self._faults = Faults(self._log_fault)
        self._refuse_impossible_transitions()
        self._options = Parameters(self, self._apply)
        # Diagnostics speak in every state, so these are not managed by the lifecycle.
        self._diagnostics = self.create_publisher(
            DiagnosticArray,
            '/diagnostics',
            qos.command_qos(),
            callback_group=MutuallyExclusiveCallbackGroup(),
        )
        self.create_timer(
            1.0,
            self._publish_diagnostics,
            callback_group=MutuallyExclusiveCallbackGroup(),
            clock=Clock(clock_type=ClockType.STEADY_TIME),
        )

    @property
    def busy(self) -> bool:
        """Whether a call goes on that outlasted its activation."""
        return self._session is not None and self._session.busy

    @transition(on_exception=FAILURE)
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._enter('configuring: loading the policy, services answer when that is done')
        begin_s = time.monotonic()
        self._state = 'unconfigured'
        self._session = Session(self, self._options, self._policy_factory, self._faults)
        self._options.configured = True
        self.get_logger().info(f'policy ready after {time.monotonic() - begin_s:.1f} s')
        self._state = 'inactive'
        return super().on_configure(state)

    @transition(on_exception=FAILURE)
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        super().on_activate(state)
        try:
            self._configured().activate()
        except Exception:
            super().on_deactivate(state)
            raise
        self._faults.clear(POLICY, 'busy')
        self._state = 'active'
        return SUCCESS

    @transition(on_exception=ERROR)
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._stop_session()
        # Only now: inactive publishers drop what they are given, the hold command included.
        super().on_deactivate(state)
        self._state = 'inactive'
        return SUCCESS

    @transition(on_exception=FAILURE)
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        if self.busy:
            self.get_logger().error('cleanup refused: a call has not ended yet; try again')
            return FAILURE
        self._teardown()
        return super().on_cleanup(state)

    @transition(on_exception=FAILURE)
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            if state.label == 'active':
                self._stop_session()
                self._configured().flush()
            if not self.busy:
                self._teardown()
        finally:
            # Also after a failure: the state machine knows no way back from here.
            self._state = FINALIZED
        return super().on_shutdown(state)

    @transition(on_exception=FAILURE)
    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        if self.busy:
            self._state = FINALIZED
            return FAILURE
        self._teardown()
        return super().on_error(state)

    def shut_down(self) -> None:
        """Hold the arm when it moves, release everything, end in the state finalized."""
        if self._state != FINALIZED:
            self.trigger_shutdown()

    def destroy_node(self) -> None:
        self._teardown()
        super().destroy_node()

    def _refuse_impossible_transitions(self) -> None:
        """Answer a transition that the state does not allow; rclpy would let it end the node."""
        service = self._service_change_state
        change = service.callback

        def guarded(
            request: ChangeState.Request, response: ChangeState.Response
        ) -> ChangeState.Response:
            try:
                return change(request, response)
            except rclpy_implementation.RCLError as error:
                self.get_logger().error(f'no such transition in state {self._state}: {error}')
                response.success = False
                return response

        service.callback = guarded

    def _configured(self) -> Session:
        if self._session is None:
            raise RuntimeError('no policy is loaded; configure the node first')
        return self._session

    def _stop_session(self) -> None:
        if not self._configured().deactivate():
            self._faults.set(POLICY, 'busy', Level.ERROR, 'a call has outlasted its activation')

    def _teardown(self) -> None:
        """Back to unconfigured from wherever the node is; nothing to do is fine."""
        session, self._session = self._session, None
        self._options.configured = False
        self._state = 'unconfigured'
        if session is not None:
            session.close()
        self._faults.clear_all()

    def _apply(self, live: Mapping[str, Any]) -> None:
        self._configured().apply(live)

    def _enter(self, state: str) -> None:
        """Say at once what is going on: a transition keeps the timers from doing so."""
        self._state = state
        self.get_logger().info(state)
        self._publish_diagnostics()

    def _watch_name(self) -> None:
        """Two nodes of one name answer the same services and would move the same arm."""
        own = (self.get_name(), self.get_namespace())
        count = self.get_node_names_and_namespaces().count(own)
        if count <= 1:
            self._faults.clear(POLICY, 'name')
            return
        text = (
            f'{count} nodes are named {self.get_fully_qualified_name()}, expected one: each gets '
            'what is meant for the other; stop one or give it another namespace (one that was '
            'killed vanishes within 20 s)'
        )
        self._faults.set(POLICY, 'name', Level.WARN, text)

    def _publish_diagnostics(self) -> None:
        self._watch_name()
        sections = [diagnostics.Section(POLICY)]
        if self._session is not None:
            sections = self._session.sections()
        self._diagnostics.publish(
            diagnostics.array(
                self.get_clock().now().to_msg(),
                self.get_fully_qualified_name(),
                self._options['hardware_id'],
                self._state,
                sections,
                self._faults,
            )
        )

    def _log_fault(self, level: Level, text: str) -> None:
        # One call each: rclpy refuses a call site that changes its severity.
        if level is Level.ERROR:
            self.get_logger().error(text)
        elif level is Level.WARN:
            self.get_logger().warning(text)
        else:
            self.get_logger().info(text)


def run(args: list[str] | None = None, policy_factory: PolicyFactory = load_policy) -> int:
    """Spin the node until SIGINT or SIGTERM. 0 after a clean stop, 2 for bad parameters."""
    stop = stop_event()
    try:
        start_rclpy(args)
        node = RmuscleNode(policy_factory)
    except ConfigError as error:
        print(f'rmuscle_node: {error}', file=sys.stderr)
        rclpy.try_shutdown()
        return 2
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.1)
    finally:
        ignore_stop_signals()
        node.shut_down()
    if node.busy:
        print('rmuscle_node: a call did not end in time; leaving without it', file=sys.stderr)
        sys.stderr.flush()
        # The interpreter cannot end in order while native code runs in another thread.
        os._exit(1)
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


def main(args: list[str] | None = None) -> NoReturn:
    sys.exit(run(args))
