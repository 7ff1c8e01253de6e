"""What is wrong right now: written by every part of the node, read by diagnostics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

POLICY = 'policy'
OBSERVATIONS = 'observations'
SCHEDULE = 'schedule'
SHADOW = 'shadow'


class Level(IntEnum):
    """Same values as diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Fault:
    level: Level
    reason: str


class Faults:
    """A thread-safe set of faults, each under ``(component, key)``.

    report: called once when a fault appears or gets another level, for the log.
    """

    def __init__(self, report: Callable[[Level, str], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._faults: dict[tuple[str, str], Fault] = {}

    def set(self, component: str, key: str, level: Level, reason: str) -> None:
        with self._lock:
            old = self._faults.get((component, key))
            self._faults[component, key] = Fault(level, reason)
        if old is None or old.level is not level:
            self._report(level, f'{component}: {reason}')

    def clear(self, component: str, key: str) -> None:
        with self._lock:
            gone = self._faults.pop((component, key), None)
        if gone is not None:
            self._report(Level.OK, f'{component}: over: {gone.reason}')

    def clear_all(self) -> None:
        with self._lock:
            self._faults.clear()

    def level(self, component: str, key: str) -> Level:
        """The level of one fault; OK when it is not there."""
        with self._lock:
            fault = self._faults.get((component, key))
        return Level.OK if fault is None else fault.level

    def of(self, component: str) -> tuple[Fault, ...]:
        """Faults of one component, worst first."""
        with self._lock:
            found = [fault for (owner, _), fault in self._faults.items() if owner == component]
        return tuple(sorted(found, key=lambda fault: -fault.level))
