"""When the station's control steps run, and how late they were. No ROS, no simulation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


class Schedule:
    """Periodic due times without drift: each lies one period after the last, however late it ran.

    A late step makes the next one follow at once, so none is lost. Only when the lag exceeds
    ``max_lag_s`` (a suspended machine, say) do the due times move, which ``moved`` counts.
    """

    def __init__(
        self,
        period_s: float,
        max_lag_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.period_s = period_s
        self.moved = 0
        self._max_lag_s = max_lag_s
        self._clock = clock
        self._due_s = clock()

    def restart(self) -> None:
        """Let the next step be due now; for pauses that are meant, such as a reset."""
        self._due_s = self._clock()

    def wait(self, stop: threading.Event) -> float | None:
        """Sleep until the next step is due. Its lag in seconds, or None once ``stop`` is set."""
        if stop.wait(max(0.0, self._due_s - self._clock())):
            return None
        lag_s = max(0.0, self._clock() - self._due_s)
        if lag_s > self._max_lag_s:
            self.moved += 1
            self._due_s += lag_s
        self._due_s += self.period_s
        return lag_s


@dataclass(frozen=True)
class Timing:
    """Durations of one diagnostics period, ms; None without samples."""

    steps: int
    lag_p50_ms: float | None
    lag_max_ms: float | None
    step_p50_ms: float | None
    render_p50_ms: float | None
    images: int


@dataclass
class StepTimes:
    """Collects durations from the control and the render thread."""

    _lags_s: list[float] = field(default_factory=list)
    _steps_s: list[float] = field(default_factory=list)
    _renders_s: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, lag_s: float, duration_s: float) -> None:
        with self._lock:
            self._lags_s.append(lag_s)
            self._steps_s.append(duration_s)

    def render(self, duration_s: float) -> None:
        with self._lock:
            self._renders_s.append(duration_s)

    def take(self) -> Timing:
        """What was collected since the last call."""
        with self._lock:
            lags, steps, renders = self._lags_s, self._steps_s, self._renders_s
            self._lags_s, self._steps_s, self._renders_s = [], [], []
        return Timing(
            steps=len(steps),
            lag_p50_ms=_ms(np.median, lags),
            lag_max_ms=_ms(np.max, lags),
            step_p50_ms=_ms(np.median, steps),
            render_p50_ms=_ms(np.median, renders),
            images=len(renders),
        )


def _ms(statistic: Callable[[list[float]], np.floating], values_s: list[float]) -> float | None:
    return 1e3 * float(statistic(values_s)) if values_s else None
