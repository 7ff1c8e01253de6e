"""Shadow mode for the operator: a fault while the references are stale, else a rare line."""

from __future__ import annotations

import math
from collections.abc import Callable

from rmuscle_ros.ros.faults import SHADOW, Faults, Level
from rmuscle_ros.types import ShadowStatus

LOG_PERIOD_S = 60.0


class ShadowWatch:
    """Looked at once per diagnostics. log: takes a line for the log, at INFO."""

    def __init__(self, faults: Faults, log: Callable[[str], None]) -> None:
        self._faults, self._log = faults, log
        self._logged_s = -math.inf
        self._logged_runs = 0

    def update(self, shadow: ShadowStatus, steady_s: float) -> None:
        """Raise or clear the warning; log the figures when there are new ones and it is time."""
        if shadow.warning is None:
            self._faults.clear(SHADOW, 'stale')
        else:
            self._faults.set(SHADOW, 'stale', Level.WARN, shadow.warning)
        due = steady_s - self._logged_s >= LOG_PERIOD_S
        if due and shadow.runs > self._logged_runs:
            self._logged_s, self._logged_runs = steady_s, shadow.runs
            self._log(summary(shadow))


def summary(shadow: ShadowStatus) -> str:
    """One line of what is known."""
    figures = {
        'median': shadow.recent_p50,
        'p99': shadow.p99,
        'max': shadow.max,
        'spread of the policy': shadow.spread_p50,
    }
    known = [f'{name} {value:.3f}' for name, value in figures.items() if value is not None]
    return (
        f'shadow mode: {shadow.runs} cached calls rerun densely; action error, normalised units: '
        f'{", ".join(known)}'
    )
