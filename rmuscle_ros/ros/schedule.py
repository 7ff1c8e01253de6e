"""When the next call starts, and where in its chunk the arm goes on. Pure: no ROS, no threads.

All times are seconds on one clock, the one that stamps observations. Row ``k`` of a chunk is the
target for ``stamp_s + (k + 1) * period_s``. A chunk that has been accepted is the *running plan*:
its rows with their times, blended into the plan it replaces. Plans keep all their rows, also those
after the execution horizon, so that a late chunk finds the arm still moving.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.types import ActionChunk

LEAD_S = 0.005
"""Time to build and send a message: rows due sooner than this count as past."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Plan:
    """Rows the arm follows.

    times_s: float64 [N], strictly increasing, the first after ``start_s``.
    rows: float64 [N, joints].
    skipped_rows: rows of the chunk that were already past.
    """

    times_s: np.ndarray
    rows: np.ndarray
    start_s: float
    skipped_rows: int

    @property
    def end_s(self) -> float:
        return float(self.times_s[-1])

    def at(self, time_s: float) -> np.ndarray:
        """Targets at ``time_s``, linear between rows, float64 [joints]."""
        index = int(np.searchsorted(self.times_s, time_s))
        if index == 0 or index == len(self.times_s):
            return self.rows[min(index, len(self.rows) - 1)]
        before, after = self.times_s[index - 1], self.times_s[index]
        share = (time_s - before) / (after - before)
        return (1.0 - share) * self.rows[index - 1] + share * self.rows[index]


class Latency:
    """What a call is expected to take, s: the 90th percentile of the last ``window`` calls.

    Calls after an idle time are slow for another reason and are left out, the first one included;
    so are calls during which the clock went back.
    """

    def __init__(self, idle_after_s: float, window: int = 10) -> None:
        self._idle_after_s = idle_after_s
        self._recent: deque[float] = deque(maxlen=window)
        self._last_end_s: float | None = None

    def add(self, start_s: float, end_s: float) -> None:
        idle = self._last_end_s is None or start_s - self._last_end_s > self._idle_after_s
        self._last_end_s = end_s
        if not idle and end_s >= start_s:
            self._recent.append(end_s - start_s)

    @property
    def estimate_s(self) -> float | None:
        """None until a call counted."""
        if not self._recent:
            return None
        ranked = sorted(self._recent)
        return ranked[math.ceil(0.9 * len(ranked)) - 1]


class Schedule:
    """Joins chunks in time. Not thread-safe: the caller holds a lock.

    execution_horizon: rows of each plan to execute before the next one takes over.
    """

    def __init__(
        self, execution_horizon: int, blend_rows: int, horizon: int, period_s: float
    ) -> None:
        self.execution_horizon = execution_horizon
        self.latency = Latency(idle_after_s=2.0 * horizon * period_s)
        self._blend_rows = blend_rows
        self._period_s = period_s
        self._plan: Plan | None = None
        self._moving_s = (-math.inf, -math.inf)

    @property
    def plan(self) -> Plan | None:
        return self._plan

    def due_s(self) -> float | None:
        """When the next call should start; None: at once.

        That is when ``execution_horizon - latency / period_s`` rows of the plan are consumed, or
        earlier, so that the new chunk still meets ``blend_rows`` rows of this plan. Without a
        latency estimate the next call starts at once.
        """
        latency_s = self.latency.estimate_s
        if self._plan is None or latency_s is None:
            return None
        rows = max(1, min(self.execution_horizon, len(self._plan.rows) - self._blend_rows))
        return float(self._plan.times_s[rows - 1]) - latency_s

    def accept(self, chunk: ActionChunk, now_s: float) -> Plan | None:
        """Make ``chunk`` the running plan from ``now_s`` on; None when all its rows are past.

        The arm is as far into the chunk as it moved since the observation. If it moved all the
        time, rows keep the times they were meant for; if it stood still, the chunk starts at row
        0 now, however long the call took.
        """
        moved_s = self._moved_s(chunk.stamp_s, now_s)
        skipped = math.floor((moved_s + LEAD_S) / self._period_s + _ROUNDING) if moved_s else 0
        if skipped >= chunk.horizon:
            return None
        start_s = now_s - moved_s
        times_s = start_s + self._period_s * np.arange(skipped + 1, chunk.horizon + 1)
        rows = chunk.actions[skipped:].astype(np.float64)
        running = self._running(now_s)
        if running is not None:
            self._blend(rows, times_s, running)
        moving_since_s = self._moving_s[0] if running is not None else now_s
        self._plan = Plan(times_s, rows, now_s, skipped)
        self._moving_s = (moving_since_s, self._plan.end_s)
        return self._plan

    def ended(self, now_s: float) -> bool:
        """Whether a plan ran out of rows with none to follow."""
        return self._plan is not None and self._running(now_s) is None

    def halt(self, now_s: float) -> None:
        """The arm stops now: it consumes no more rows, and the next plan starts from rest."""
        since_s, until_s = self._moving_s
        self._moving_s = (since_s, min(until_s, now_s))
        self._plan = None

    def rows_left(self, now_s: float) -> int:
        """Rows of the plan that are still to come."""
        return 0 if self._plan is None else int(np.sum(self._plan.times_s > now_s))

    def _running(self, now_s: float) -> Plan | None:
        return self._plan if self._plan is not None and self._plan.end_s > now_s else None

    def _moved_s(self, since_s: float, now_s: float) -> float:
        """For how long between ``since_s`` and ``now_s`` the arm followed a plan."""
        moving_since_s, moving_until_s = self._moving_s
        return max(0.0, min(now_s, moving_until_s) - max(since_s, moving_since_s))

    def _blend(self, rows: np.ndarray, times_s: np.ndarray, running: Plan) -> None:
        """Move the first ``blend_rows`` rows towards ``running``, less from row to row."""
        for index in range(min(self._blend_rows, len(rows))):
            if times_s[index] > running.end_s:
                return
            share = (index + 1) / (self._blend_rows + 1)
            rows[index] = share * rows[index] + (1.0 - share) * running.at(times_s[index])
