"""Drives a policy node and the simulated station through episodes, by their services."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from rmuscle_ros.errors import ProcessError
from rmuscle_ros.msg import CacheStatus, EpisodeResult
from rmuscle_ros.ros.service_calls import LIFECYCLE, PARAMETERS, RemoteNode, ServiceCaller

START_S = 60.0
CONFIGURE_S = 300.0
ACTIVATE_S = 60.0
# The hold command that deactivate publishes must arrive before the arms are put back.
SETTLE_S = 0.2
# On top of the episode's length, which counts from the first accepted trajectory.
FIRST_CHUNK_S = 20.0
# A status that was on its way when the waiting began may still tell of the time before.
FRESH_STATUSES = 2

EpisodeProgress = Callable[[float, int], None]


class Listener(Protocol):
    """What hears the topics while an episode runs."""

    def begin(self) -> None:
        """An episode begins; forget the last one."""

    def result(self, seed: int) -> EpisodeResult | None:
        """The station's verdict on this episode, once it is there."""

    def calls(self) -> int:
        """Calls of this episode so far."""

    def problems(self) -> Sequence[str]:
        """Errors that were heard, in words."""


@dataclass(frozen=True)
class Ended:
    """How an episode ended.

    result: None when the station gave no verdict in time; ``note`` then says so.
    admitted: false for a recorded episode that did not enter the library; ``detail`` says why.
    """

    result: EpisodeResult | None
    admitted: bool
    detail: str
    note: str


class EpisodeDriver:
    """One policy node (full name ``policy``) on the station (full name ``station``).

    listener: asked for the verdict. length_s: of an episode, as the station has it.
    """

    def __init__(
        self,
        caller: ServiceCaller,
        station: str,
        policy: str,
        listener: Listener,
        length_s: float,
    ) -> None:
        self._caller = caller
        self._station = RemoteNode(caller, station, {**PARAMETERS, 'reset': Trigger})
        own = {'reset': Trigger, 'end_episode': SetBool}
        self._policy = RemoteNode(caller, policy, {**PARAMETERS, **LIFECYCLE, **own})
        self._listener = listener
        self._length_s = length_s

    def configure(self) -> None:
        """Wait for both nodes and let the policy load; ProcessError when that fails."""
        self._station.get_parameters(['seed'], START_S)
        self._policy.state(START_S)
        self._policy.change_state('configure', CONFIGURE_S)

    def run(self, seed: int, parameters: Mapping[str, Any], progress: EpisodeProgress) -> Ended:
        """One episode on scene ``seed``, from reset to verdict.

        parameters: set on the policy node first. progress: told seconds and calls so far.
        """
        self._prepare(seed, parameters)
        self._listener.begin()
        self._policy.change_state('activate', ACTIVATE_S)
        note = self._wait_for_result(seed, progress)
        self._policy.change_state('deactivate')
        result = self._listener.result(seed)
        success = result is not None and bool(result.success)
        answer = self._policy.call('end_episode', SetBool.Request(data=success))
        return Ended(result, answer.success, answer.message, note)

    def _prepare(self, seed: int, parameters: Mapping[str, Any]) -> None:
        time.sleep(SETTLE_S)
        self._station.set_parameters({'seed': seed})
        if parameters:
            self._policy.set_parameters(dict(parameters))
        for remote in (self._station, self._policy):
            response = remote.call('reset', Trigger.Request())
            if not response.success:
                raise ProcessError(f'{remote.full_name}/reset failed: {response.message}')

    def _wait_for_result(self, seed: int, progress: EpisodeProgress) -> str:
        """Wait for the verdict; "" or, when none came, a note that says so."""
        begin_s = time.monotonic()
        limit_s = self._length_s + FIRST_CHUNK_S

        def ended() -> bool:
            seconds = time.monotonic() - begin_s
            progress(seconds, self._listener.calls())
            return self._listener.result(seed) is not None or seconds > limit_s

        self._caller.wait_until(ended, 'the end of the episode', limit_s + 5.0)
        if self._listener.result(seed) is not None:
            return ''
        if self._listener.calls() == 0:
            problems = '; '.join(self._listener.problems()) or 'no error on /diagnostics'
            raise ProcessError(
                f'{self._policy.full_name} sent no chunk in {limit_s:.0f} s ({problems}); see its '
                'log'
            )
        return f'the station gave no verdict within {limit_s:.0f} s'


class Background:
    """What the rebuild thread of the node ``policy`` has left to do, by its ``~/status``."""

    def __init__(self, node: Node, policy: str) -> None:
        self._lock = threading.Lock()
        self._status: CacheStatus | None = None
        self._received = 0
        node.create_subscription(CacheStatus, f'{policy}/status', self._on_status, 10)

    def wait(self, caller: ServiceCaller, what: str, limit_s: float) -> bool:
        """Until nothing is left, calibration included; False when that takes too long."""
        end_s = time.monotonic() + limit_s
        with self._lock:
            begin = self._received

        def over() -> bool:
            return self._idle(begin + FRESH_STATUSES) or time.monotonic() > end_s

        caller.wait_until(over, what, limit_s + 5.0)
        return self._idle(begin)

    def _idle(self, received: int) -> bool:
        with self._lock:
            status = self._status
            return (
                status is not None
                and self._received >= received
                and status.rebuild_jobs + status.rebuild_pending == 0
            )

    def _on_status(self, message: CacheStatus) -> None:
        with self._lock:
            self._status = message
            self._received += 1
