"""The guard: how many rows a call must recompute to stay within an error budget.

Reuse fails like a cliff on some inputs, and means hide it. Before anything is copied the damage is
estimated from what is known then, the drift of the rows that would be copied:

    residual(rho) = (1 / V) sum of drift over the rows that rho leaves to be copied
    estimate(rho) = slope * residual(rho)

``slope`` is calibrated on the library itself (``memory.calibration``): the action error that
copying did to recorded calls, per residual. The smallest share of ``SHARES`` whose estimate is
within the budget is taken; when none is, the call is dense.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

SHARES = (0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class CopyErrors:
    """What copying a reference's rows does to a recorded call, the caches off otherwise.

    row_drift: fp32 [V], at the first prefix site.
    error: share of rows recomputed -> action error, mean over the chunk, normalised units.
    """

    row_drift: Tensor
    error: Mapping[float, float]

    def slopes(self) -> list[float]:
        """Action error per residual drift, for every share that leaves any."""
        residuals = {share: residual(self.row_drift, share) for share in self.error}
        return [self.error[share] / left for share, left in residuals.items() if left > 0]


@dataclass(frozen=True)
class Guard:
    """slope: action error per residual drift; budget: in the unit of that error (normalised
    actions, mean over the chunk)."""

    slope: float
    budget: float

    def choose(self, drift: Tensor, least: float) -> tuple[float | None, float]:
        """drift [V] of all visual rows -> (share to recompute, estimated error).

        ``least``: no smaller share is taken. The share is None when even the largest one (or
        ``least``, if that is larger) is estimated to exceed the budget, or the drift is not a
        number.
        """
        shares = [share for share in SHARES if share > least]
        estimate = math.inf
        for share in (least, *shares):
            estimate = self.slope * residual(drift, share)
            if estimate <= self.budget:
                return share, estimate
        return None, estimate


def residual(drift: Tensor, share: float) -> float:
    """Mean over all rows [V] of the drift that is left when ``share`` of them is recomputed."""
    rows = drift.shape[0]
    kept = rows - math.ceil(share * rows - 1e-9)
    if not kept:
        return 0.0
    return float(drift.topk(kept, largest=False).values.sum()) / rows
