"""Shares of the visual rows that the last calls recomputed: by them one tunes the error budget."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass

from rmuscle_ros.types import Provenance, Reason

HISTORY = 100


@dataclass(frozen=True)
class ShareCounts:
    """calls: share of visual rows recomputed -> cached calls that took it, smallest share first.

    over_budget: calls that had a reference and ran densely, because the guard estimated an error
        above the budget at every share.
    """

    calls: dict[float, int]
    over_budget: int = 0

    def __str__(self) -> str:
        return ', '.join(f'{share:g}: {count}' for share, count in self.calls.items()) or 'none'


class RecentShares:
    """The last ``HISTORY`` calls that had a reference; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # None stands for a call over the budget.
        self._shares: deque[float | None] = deque(maxlen=HISTORY)

    def note(self, call: Provenance) -> None:
        """Keep a cached call or one over the budget; others did not get as far as a share."""
        share = call.rho_p if call.reason is Reason.CACHED else None
        if share is not None or call.reason is Reason.OVER_BUDGET:
            with self._lock:
                self._shares.append(share)

    def count(self) -> ShareCounts:
        with self._lock:
            shares = list(self._shares)
        taken = Counter(share for share in shares if share is not None)
        return ShareCounts(dict(sorted(taken.items())), shares.count(None))
