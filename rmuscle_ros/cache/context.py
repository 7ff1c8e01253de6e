"""Context Cache: recompute the rows that drifted, copy the FFN outputs of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.kernels.context_ffn import context_ffn
from rmuscle_ros.kernels.token_drift import select_rows, token_drift, view_drift
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import Site

LEAST_LIMIT = 1e-6


@dataclass
class ContextTrace:
    """What a ContextFfn did. Counts are summed over sites; the rest is of the first site.

    drift: the worst view's mean drift in units of its limit (1 = the fence); None while no row
        was to be copied (rho_p = 1).
    tripped: the drift fence was exceeded, nothing was copied.
    rho_p: the share of rows recomputed; None when nothing was copied.
    estimate: the guard's action error for it, or for the largest share when that is too much;
        None without a guard.
    row_drift: [V], for calibration.
    """

    sites: int = 0
    computed_rows: int = 0
    copied_rows: int = 0
    drift: float | None = None
    tripped: bool = False
    rho_p: float | None = None
    estimate: float | None = None
    row_drift: Tensor | None = None
    selected: dict[Site, Tensor] = field(default_factory=dict)

    @property
    def reused(self) -> bool:
        return self.rho_p is not None


class ContextFfn:
    """``y_S = FFN(x_S); y_i = y_ref_i`` with S = text rows and the rows of largest drift.

    Several references serve together: at the first site every row takes the one it drifted least
    from, and keeps it. There, before anything is copied, the mean drift of each view's rows is
    compared with that view's limit, and the guard chooses how many rows are recomputed; where a
    limit is exceeded or no share is within the budget, the whole prefill runs densely.
    """

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        states: Sequence[ExpandedState],
        visual: Tensor,
        text: Tensor,
        rho_p: float,
        drift_limits: Tensor,
        fence: bool = True,
        guard: Guard | None = None,
    ) -> None:
        """visual, text: int64 row numbers that partition the prefix; batch 1 only.

        rho_p: the share of visual rows recomputed, with a guard the least one.
        drift_limits: [views]; every view has the same number of rows, in the order of ``visual``.
        fence: False measures the drift but never falls back.
        """
        self._modules = modules
        self._states = states
        self._visual, self._text = visual, text
        self._rho_p, self._guard = rho_p, guard
        self._drift_limits, self._fence = drift_limits, fence
        self._nearest: Tensor | None = None
        self.trace = ContextTrace()

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """x [1, T, D] -> y [1, T, D]."""
        mlp, trace = self._modules[site], self.trace
        rows = x[0]
        visual = rows.index_select(0, self._visual)
        if self._nearest is None:
            self._begin(site, visual)
        if trace.rho_p is None:
            return mlp(x)
        drift = token_drift(visual, self._reference(site, 'x'))
        recompute, keep = select_rows(drift, trace.rho_p)
        computed = torch.cat((self._visual[recompute], self._text)).sort().values
        y_kept = self._reference(site, 'y').index_select(0, keep)
        y = context_ffn(mlp, rows, computed, self._visual[keep], y_kept)
        trace.sites += 1
        trace.computed_rows += computed.shape[0]
        trace.copied_rows += keep.shape[0]
        trace.selected[site] = computed
        return y.unsqueeze(0)

    def _begin(self, site: Site, visual: Tensor) -> None:
        """At the first site: every row's nearest reference, the fence, the guard."""
        trace = self.trace
        drifts = torch.stack([token_drift(visual, state.x[site]) for state in self._states])
        drift, self._nearest = drifts.min(dim=0)
        trace.row_drift = drift
        if self._rho_p < 1:
            # A library of copies has limits of 0, which its own pictures must not exceed.
            limits = self._drift_limits.clamp_min(LEAST_LIMIT)
            ratio = view_drift(drift, limits.shape[0]) / limits
            trace.drift = float(ratio.max())
            # Not ">": a drift that is not a number must not pass.
            trace.tripped = self._fence and not trace.drift <= 1
        if trace.tripped:
            return
        trace.rho_p = self._rho_p
        if self._guard is not None:
            trace.rho_p, trace.estimate = self._guard.choose(drift, self._rho_p)

    def _reference(self, site: Site, which: str) -> Tensor:
        """x or y of every row's nearest reference, [V, D]."""
        tensors = [getattr(state, which)[site] for state in self._states]
        if len(tensors) == 1:
            return tensors[0]
        rows = torch.arange(len(self._visual), device=tensors[0].device)
        return torch.stack(tensors)[self._nearest, rows]
