"""Everything that lives from configure to cleanup, taken down in reverse order of its making."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode

from rmuscle_ros.config import LIVE_OPTIONS, PolicyConfig
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.msg import CacheStatus
from rmuscle_ros.ros import diagnostics, qos
from rmuscle_ros.ros.faults import OBSERVATIONS, SCHEDULE, Faults, Level
from rmuscle_ros.ros.intake import Intake
from rmuscle_ros.ros.interfaces import PolicyLike
from rmuscle_ros.ros.parameters import Parameters
from rmuscle_ros.ros.pilot import Pilot
from rmuscle_ros.ros.publishers import Commands
from rmuscle_ros.ros.sampling import Now
from rmuscle_ros.ros.services import EpisodeServices
from rmuscle_ros.ros.settings import check_device, check_fit, check_horizon, check_wiring
from rmuscle_ros.ros.shadow import ShadowWatch
from rmuscle_ros.ros.worker import Worker

WATCH_HZ = 20.0
FLUSH_S = 0.5

PolicyFactory = Callable[[PolicyConfig], PolicyLike]


class Session:
    """A loaded policy with its topics, services and timers.

    Raises RmuscleError, or whatever the policy raises, with nothing left behind.
    """

    def __init__(
        self,
        node: LifecycleNode,
        parameters: Parameters,
        policy_factory: PolicyFactory,
        faults: Faults,
    ) -> None:
        self._node = node
        self._parameters = parameters
        self._faults = faults
        with ExitStack() as stack:
            self._build(policy_factory, stack)
            self._stack = stack.pop_all()

    @property
    def busy(self) -> bool:
        """Whether a call goes on although the node was deactivated."""
        return self._worker.busy

    def activate(self) -> None:
        """Open the intake and start the inference thread. RuntimeError while still busy."""
        if self.busy:
            raise RuntimeError('the call of the last activation has not ended yet; try again')
        self._intake.open()
        self._pilot.activate()
        self._worker.start()

    def deactivate(self) -> bool:
        """Stop the arm, then the thread; False when a call outlasts the time allowed for it."""
        self._intake.close()
        # The arm first: a call in flight may take long to end, its chunk is void from here on.
        self._pilot.deactivate()
        return self._worker.stop(self._parameters['join_timeout_s'])

    def apply(self, live: Mapping[str, Any]) -> None:
        """Take over live parameters. ConfigError when one cannot be."""
        if live.get('cache.enabled') and self._pilot.cache_disabled:
            raise ConfigError(
                'cache.enabled: the rebuild thread has died; configure the node anew'
            )
        rows = live.get('execution_horizon')
        if rows is not None:
            check_horizon(rows, self._policy.info)
            self._pilot.set_execution_horizon(rows)
        changes = {name: live[key] for name, key in LIVE_OPTIONS.items() if key in live}
        if changes:
            self._policy.tune(**changes)

    def sections(self) -> list[diagnostics.Section]:
        """For /diagnostics."""
        now, status = self._now(), self._policy.status()
        self._shadow.update(status.shadow, now.steady_s)
        return [
            diagnostics.policy_section(self._policy.info, status, self._pilot.shares.count()),
            diagnostics.observation_section(self._intake.sampler.reports(now)),
            diagnostics.schedule_section(self._pilot, now.time_s),
            diagnostics.shadow_section(status.shadow),
        ]

    def flush(self) -> None:
        """Wait until the controllers have the last command, at most half a second each."""
        self._commands.flush(FLUSH_S)

    def close(self) -> None:
        """Release everything; an active session is stopped first, the arm held."""
        self.deactivate()
        self._stack.close()

    def _build(self, policy_factory: PolicyFactory, stack: ExitStack) -> None:
        wiring, config = self._parameters.wiring(), self._parameters.policy_config()
        check_wiring(wiring)
        self._policy = policy_factory(config)
        stack.callback(self._policy.close)
        info, settings = self._policy.info, wiring.settings
        check_device(info.device, config.engine.device, settings.allow_cpu)
        check_fit(wiring, info)
        self._policy.warm_up()
        self._commands = Commands(self._node, wiring, info, self._mismatch(SCHEDULE))
        stack.callback(self._commands.destroy)
        self._intake = Intake(self._node, wiring, info, self._now, self._mismatch(OBSERVATIONS))
        stack.callback(self._intake.destroy)
        self._pilot = Pilot(
            self._policy,
            self._intake,
            self._commands,
            settings,
            self._faults,
            self._now,
            self._node.get_logger().info,
        )
        self._shadow = ShadowWatch(self._faults, self._node.get_logger().info)
        self._worker = Worker(self._pilot.step)
        self._services = EpisodeServices(self._node, self._policy, self._pilot, self._worker)
        stack.callback(self._services.destroy)
        self._status = self._node.create_publisher(
            CacheStatus, '~/status', qos.command_qos(), callback_group=_own_group()
        )
        stack.callback(self._node.destroy_publisher, self._status)
        self._timer(1.0 / WATCH_HZ, self._pilot.watch, stack)
        self._timer(1.0 / settings.status_rate_hz, self._publish_status, stack)
        self._watch_clock(stack)

    def _timer(self, period_s: float, callback: Callable[[], None], stack: ExitStack) -> None:
        """A timer on the steady clock: a simulation that stands still must be noticed."""
        timer = self._node.create_timer(
            period_s,
            callback,
            callback_group=_own_group(),
            clock=Clock(clock_type=ClockType.STEADY_TIME),
        )
        stack.callback(self._node.destroy_timer, timer)

    def _watch_clock(self, stack: ExitStack) -> None:
        """A clock that jumps back (a restarted simulation or bag) makes all stamps void."""

        def jumped(jump: TimeJump) -> None:
            seconds = jump.delta.nanoseconds * 1e-9
            self._services.new_episode(f'the clock jumped by {seconds:.3f} s')

        threshold = JumpThreshold(
            min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=False
        )
        # Held before the jump: after it, no joint state and no target is of the present.
        handle = self._node.get_clock().create_jump_callback(
            threshold, pre_callback=self._pilot.begin_episode, post_callback=jumped
        )
        stack.callback(handle.unregister)

    def _now(self) -> Now:
        return Now(self._node.get_clock().now().nanoseconds * 1e-9, time.monotonic())

    def _mismatch(self, component: str) -> Callable[[str], None]:
        """A reporter of QoS mismatches; each topic is one fault, until cleanup."""
        return lambda text: self._faults.set(component, text, Level.WARN, text)

    def _publish_status(self) -> None:
        parameters = self._parameters
        cache: dict[str, float | bool] = {
            'enabled': parameters['cache.enabled'] and not self._pilot.cache_disabled,
            'guard': parameters['cache.guard'],
            'error_budget': parameters['cache.error_budget'],
            'rho_p': parameters['cache.rho_p'],
            'rho_n': parameters['cache.rho_n'],
            'similarity_threshold': parameters['cache.similarity_threshold'],
            'shadow_every': parameters['shadow.every'],
            'shadow_warn_error': parameters['shadow.warn_error'],
        }
        self._status.publish(
            diagnostics.status_message(
                self._node.get_clock().now().to_msg(),
                self._policy.status(),
                cache,
                self._pilot.shares.count(),
                self._pilot.instruction,
            )
        )


def _own_group() -> MutuallyExclusiveCallbackGroup:
    return MutuallyExclusiveCallbackGroup()
