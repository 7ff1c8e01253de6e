"""What one policy node and the station say while an evaluation runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import Log
from rclpy.node import Node

from rmuscle_ros.msg import ActionChunk, CacheStatus, EpisodeResult
from rmuscle_ros.ros.conversions import known, provenance
from rmuscle_ros.ros.faults import POLICY
from rmuscle_ros.ros.qos import latched_qos
from rmuscle_ros.types import PolicyInfo, Provenance


@dataclass
class _Take:
    calls: list[Provenance] = field(default_factory=list)
    result: EpisodeResult | None = None


class CallListener:
    """Subscribes to the policy node and the station, both by full name.

    Its callbacks run in the thread that spins ``node``; the rest in another. Calls are those up to
    the station's verdict.
    """

    def __init__(self, node: Node, station: str, policy: str) -> None:
        self._lock = threading.Lock()
        self._policy = policy
        self._take: _Take | None = None
        self._chunk: ActionChunk | None = None
        self._about: dict[str, str] = {}
        self._errors: dict[int, float] = {}
        self._spread_p50: float | None = None
        self._problems: dict[str, None] = {}
        create = node.create_subscription
        create(ActionChunk, f'{policy}/action_chunk', self._on_chunk, 50)
        create(CacheStatus, f'{policy}/status', self._on_status, 50)
        create(EpisodeResult, f'{station}/episode_result', self._on_result, latched_qos())
        create(DiagnosticArray, '/diagnostics', self._on_diagnostics, 50)
        create(Log, '/rosout', self._on_log, 50)

    def begin(self) -> None:
        """An episode begins; forget the last one."""
        with self._lock:
            self._take = _Take()

    def result(self, seed: int) -> EpisodeResult | None:
        """The station's verdict on this episode, once it is there."""
        with self._lock:
            result = self._take.result if self._take else None
        return result if result is not None and result.seed == seed else None

    def calls(self) -> int:
        """Calls of this episode so far."""
        with self._lock:
            return len(self._take.calls) if self._take else 0

    def problems(self) -> Sequence[str]:
        """Errors that the node has logged, each once."""
        with self._lock:
            return tuple(self._problems)

    def finish(self) -> tuple[Provenance, ...]:
        """The calls of the episode that ``begin`` started; the next ones belong to none."""
        with self._lock:
            take, self._take = self._take, None
        return () if take is None else tuple(take.calls)

    def error(self, call: int) -> float | None:
        """Action error of a call by its number; None when it was not rerun."""
        with self._lock:
            return self._errors.get(call)

    def spread_p50(self) -> float | None:
        """What dense answers with other noise differ by, median; None while not measured."""
        with self._lock:
            return self._spread_p50

    def info(self) -> PolicyInfo | None:
        """The policy as its node describes it; None before its first call or diagnostics."""
        with self._lock:
            about, chunk = self._about, self._chunk
        if not about or chunk is None:
            return None
        height, width = map(int, about['image_size'].split(' x '))
        return PolicyInfo(
            model=about['model'],
            parameters=int(about['parameters']),
            fingerprint=about['fingerprint'],
            cameras=tuple(about['cameras'].split(', ')),
            image_size=(height, width),
            joint_names=tuple(chunk.joint_names),
            horizon=chunk.horizon,
            period_s=chunk.period_s,
            device=about['device'],
            dtype=about['dtype'],
            engine=about['engine'],
        )

    def _on_chunk(self, message: ActionChunk) -> None:
        with self._lock:
            self._chunk = message
            if self._take is not None and self._take.result is None:
                self._take.calls.append(provenance(message))

    def _on_status(self, message: CacheStatus) -> None:
        error = known(message.shadow_error_last)
        with self._lock:
            self._spread_p50 = known(message.shadow_spread_p50)
            if error is not None:
                self._errors[message.shadow_call_last] = error

    def _on_result(self, message: EpisodeResult) -> None:
        with self._lock:
            if self._take is not None:
                self._take.result = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == f'{self._policy}: {POLICY}' and status.values:
                with self._lock:
                    self._about = {item.key: item.value for item in status.values}

    def _on_log(self, message: Log) -> None:
        # Loggers have no leading slash, and dots between namespaces.
        own = message.name == self._policy.strip('/').replace('/', '.')
        if own and message.level >= Log.ERROR:
            with self._lock:
                self._problems[message.msg.splitlines()[0]] = None
