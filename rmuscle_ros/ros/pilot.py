"""Keeps the arm fed with chunks, and holds it when that is not possible. Pure: no ROS.

``step`` runs in the inference thread: wait until a call is due, observe, infer, hand over.
``watch`` runs in the executor some twenty times a second and sees what a busy thread cannot: that
nothing comes in, or that the plan has run out under a call. One lock makes the two agree; it is
never held during a call. A generation number outdates the call in flight: its chunk is dropped
when the arm was stopped or an episode began meanwhile.
"""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rmuscle_ros.errors import ObservationError, RebuildError
from rmuscle_ros.ros.episodes import EpisodeWatch
from rmuscle_ros.ros.faults import OBSERVATIONS, POLICY, SCHEDULE, Faults, Level
from rmuscle_ros.ros.interfaces import Actuators, PolicyLike, Senses
from rmuscle_ros.ros.sampling import Now
from rmuscle_ros.ros.schedule import Schedule
from rmuscle_ros.ros.settings import NodeSettings
from rmuscle_ros.ros.shares import RecentShares
from rmuscle_ros.types import ActionChunk, Observation

TICK_S = 0.005
RETRY_S = 0.1
_UNBLOCKED_BY = '~/reset or the next activation'


@dataclass
class Counters:
    """Since configure."""

    chunks: int = 0
    holds: int = 0
    overruns: int = 0
    dropped_chunks: int = 0


class Pilot:
    """One policy on one arm.

    now: both clocks at this instant. log: takes a line for the log.
    """

    def __init__(
        self,
        policy: PolicyLike,
        senses: Senses,
        actuators: Actuators,
        settings: NodeSettings,
        faults: Faults,
        now: Callable[[], Now],
        log: Callable[[str], None],
    ) -> None:
        info = policy.info
        self.schedule = Schedule(
            settings.execution_horizon, settings.blend_rows, info.horizon, info.period_s
        )
        self.counters = Counters()
        self.shares = RecentShares()
        self.instruction = settings.instruction
        self.cache_disabled = False
        self._policy = policy
        self._senses = senses
        self._actuators = actuators
        self._settings = settings
        self._faults = faults
        self._now = now
        self._log = log
        self._episodes = EpisodeWatch(settings.episode)
        self._lock = threading.RLock()
        self._generation = 0
        self._flying = False
        self._calling = False
        self._blocked = False
        self._episode_over: str | None = None
        self._obstacle: str | None = None
        self._held: Mapping[str, float] | None = None
        self._usable_s = 0.0
        self._watched_s = -math.inf
        self._observed_s: float | None = None

    def activate(self) -> None:
        """Begin to command the arm, from rest."""
        with self._lock:
            self._begin()
            self._held = None
            self._flying = True

    def deactivate(self) -> None:
        """Stop the arm now; nothing is sent after this returns."""
        with self._lock:
            if self._flying:
                self._hold(self._now())
            self._begin()
            self._flying = False

    def begin_episode(self) -> None:
        """Stop the arm and forget all that was observed; the policy is told by the caller."""
        with self._lock:
            if self._flying:
                self._hold(self._now())
            self._begin()
            self._senses.sampler.restart(self._now())

    def set_execution_horizon(self, rows: int) -> None:
        with self._lock:
            self.schedule.execution_horizon = rows

    def step(self) -> float:
        """One piece of work; returns seconds to wait before the next one. Never raises."""
        try:
            return self._step()
        except Exception as error:  # noqa: BLE001, the arm must stop, the node live on
            self._block('crash', f'{type(error).__name__}: {error}', traceback.format_exc())
            return RETRY_S

    def watch(self) -> None:
        """Notice starvation, a plan that ran out and an episode that is over."""
        with self._lock:
            if not self._flying:
                return
            now = self._now()
            self._watch_clock(now)
            self._watch_observations(now)
            self._watch_schedule(now)
            if self._episode_over is None:
                joints = self._senses.sampler.joints(now)
                self._episode_over = self._episodes.update(now.time_s, joints)

    def _step(self) -> float:
        if self._blocked or not self._flying:
            return RETRY_S
        if not self.instruction:
            self._faults.set(
                OBSERVATIONS,
                'instruction',
                Level.WARN,
                'no instruction; publish one on ~/instruction or set the parameter instruction',
            )
            return RETRY_S
        self._faults.clear(OBSERVATIONS, 'instruction')
        self._end_episode_if_over()
        with self._lock:
            due_s = self.schedule.due_s()
            generation = self._generation
        start_s = self._now().time_s
        if due_s is not None and due_s > start_s:
            return min(due_s - start_s, TICK_S)
        observation = self._observe()
        if observation is None:
            return TICK_S
        return self._call(observation, start_s, generation)

    def _observe(self) -> Observation | None:
        """The newest observation, unless there is none or the policy has seen it."""
        try:
            observation = self._senses.observe(self.instruction)
        except ObservationError as error:
            self._obstacle = str(error)
            return None
        self._obstacle = None
        if observation.stamp_s == self._observed_s:
            return None
        self._observed_s = observation.stamp_s
        return observation

    def _call(self, observation: Observation, start_s: float, generation: int) -> float:
        self._calling = True
        try:
            chunk = self._policy.infer(observation)
        except ObservationError as error:
            self._refused(str(error), generation)
            return RETRY_S
        except RebuildError as error:
            self._rebuild_failed(str(error), traceback.format_exc())
            return RETRY_S
        finally:
            self._calling = False
        self._take(chunk, start_s, generation)
        return 0.0

    def _take(self, chunk: ActionChunk, start_s: float, generation: int) -> None:
        """Join a fresh chunk to what the arm is doing, and send it."""
        self.shares.note(chunk.provenance)
        with self._lock:
            now_s = self._now().time_s
            self.schedule.latency.add(start_s, now_s)
            if generation != self._generation:
                self.counters.dropped_chunks += 1
                return
            met = self.schedule.rows_left(now_s) > 0
            plan = self.schedule.accept(chunk, now_s)
            if plan is None:
                self._overrun(f'all {chunk.horizon} rows of a chunk were past when it was ready')
                return
            self._actuators.send(chunk, plan)
            self.counters.chunks += 1
        self._faults.clear(POLICY, 'observation')
        if met:
            self._faults.clear(SCHEDULE, 'overrun')
        self._faults.clear(SCHEDULE, 'ended')

    def _refused(self, reason: str, generation: int) -> None:
        """The policy cannot use an observation that the node found complete."""
        self._faults.set(POLICY, 'observation', Level.ERROR, reason)
        with self._lock:
            if generation == self._generation and self.schedule.plan is not None:
                self._hold(self._now())

    def _rebuild_failed(self, reason: str, trace: str) -> None:
        if self._settings.on_rebuild_error == 'hold' or self.cache_disabled:
            # A new episode would only meet the same dead thread.
            self._block('rebuild', reason, trace, until='the node is configured anew')
            return
        self._log(trace)
        self._policy.tune(enabled=False)
        self.cache_disabled = True
        text = f'{reason}; every call is dense from now on (on_rebuild_error)'
        self._faults.set(POLICY, 'rebuild', Level.ERROR, text)

    def _block(self, key: str, reason: str, trace: str, until: str = _UNBLOCKED_BY) -> None:
        """Make no more calls until an episode begins or the node is activated again."""
        self._log(trace)
        text = f'{reason}; the arm holds until {until}'
        self._faults.set(POLICY, key, Level.ERROR, text)
        with self._lock:
            self._blocked = True
            self._obstacle = None
            if self._flying:
                self._hold(self._now())

    def _begin(self) -> None:
        """Start from rest: the call in flight, old faults and old motion no longer count."""
        now = self._now()
        self._generation += 1
        self.schedule.halt(now.time_s)
        self._episodes.restart()
        self._blocked = False
        self._episode_over = self._obstacle = self._observed_s = None
        self._usable_s = now.steady_s
        self._watched_s = -math.inf
        self._faults.clear(POLICY, 'crash')
        self._faults.clear(POLICY, 'observation')
        for key in ('overrun', 'ended', 'hold'):
            self._faults.clear(SCHEDULE, key)
        for key in ('starvation', 'instruction'):
            self._faults.clear(OBSERVATIONS, key)

    def _hold(self, now: Now) -> None:
        """Stop the arm where it was measured, else at its target, else where it was held last."""
        positions = self._senses.sampler.joints(now)
        plan = self.schedule.plan
        self.schedule.halt(now.time_s)
        if positions is None and plan is not None and plan.start_s <= now.time_s:
            targets = plan.at(now.time_s).tolist()
            positions = dict(zip(self._policy.info.joint_names, targets, strict=True))
        self._held = positions = positions or self._held
        if positions is None:
            text = 'no joint state since activation, so no hold command was sent'
            self._faults.set(SCHEDULE, 'hold', Level.ERROR, text)
            return
        self._actuators.hold(positions)
        self.counters.holds += 1

    def _watch_clock(self, now: Now) -> None:
        """A clock set back (by NTP, say) would put the next call off by as much."""
        back_s = self._watched_s - now.time_s
        if back_s > 0.0:
            self._log(f'the clock was set back by {back_s:.3f} s or more; starting from rest')
            self.begin_episode()
        self._watched_s = now.time_s

    def _watch_observations(self, now: Now) -> None:
        problem = self._senses.sampler.problem(now) or self._obstacle
        if problem is None:
            self._usable_s = now.steady_s
            self._faults.clear(OBSERVATIONS, 'starvation')
            return
        silent_s = now.steady_s - self._usable_s
        timeout_s = self._settings.starvation_timeout_s
        starved = self._faults.level(OBSERVATIONS, 'starvation') is Level.ERROR
        if silent_s > timeout_s:
            text = f'no observation for {silent_s:.1f} s, the arm holds: {problem}'
            self._faults.set(OBSERVATIONS, 'starvation', Level.ERROR, text)
            if not starved:
                self._generation += 1
                self._hold(now)
        elif silent_s > timeout_s / 2.0:
            text = f'no observation for {silent_s:.1f} s: {problem}'
            self._faults.set(OBSERVATIONS, 'starvation', Level.WARN, text)

    def _watch_schedule(self, now: Now) -> None:
        if self.schedule.ended(now.time_s):
            if self._calling:
                self._overrun('a call took longer than the rows that were left; the arm holds')
            else:
                reason = self._obstacle or 'no new observation'
                text = f'the chunk ended before a call could begin, the arm holds: {reason}'
                self._faults.set(SCHEDULE, 'ended', Level.WARN, text)
            self._hold(now)
        self._watch_latency()

    def _watch_latency(self) -> None:
        latency_s = self.schedule.latency.estimate_s
        info = self._policy.info
        chunk_s = info.horizon * info.period_s
        wanted_s = self.schedule.execution_horizon * info.period_s
        if latency_s is None or latency_s <= wanted_s:
            self._faults.clear(SCHEDULE, 'latency')
            return
        level = Level.ERROR if latency_s > chunk_s else Level.WARN
        self._faults.set(
            SCHEDULE,
            'latency',
            level,
            f'calls take {latency_s:.3f} s; the execution horizon is {wanted_s:.3f} s, '
            f'a chunk {chunk_s:.3f} s',
        )

    def _overrun(self, reason: str) -> None:
        self.counters.overruns += 1
        self._faults.set(SCHEDULE, 'overrun', Level.ERROR, reason)

    def _end_episode_if_over(self) -> None:
        """Between two calls; the arm goes on, only the memory of the policy starts anew."""
        reason, self._episode_over = self._episode_over, None
        if reason is not None:
            end = self._policy.end_episode(False)
            self._log(f'episode ended: {reason}; {end.detail}')
