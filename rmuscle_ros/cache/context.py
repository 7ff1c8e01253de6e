"""Context Cache: recompute the rows that drifted, copy the FFN outputs of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rmuscle_ros.cache.states import PrefixState
from rmuscle_ros.kernels.context_ffn import context_ffn
from rmuscle_ros.kernels.token_drift import select_rows, token_drift, view_drift
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import Site


@dataclass
class ContextTrace:
    """What a ContextFfn did. Counts are summed over sites; drift is of the first site.

    drift: the worst view's mean drift in units of its limit (1 = the fence); None while no row
        was to be copied (rho_p = 1).
    tripped: the drift fence was exceeded, nothing was copied.
    """

    sites: int = 0
    computed_rows: int = 0
    copied_rows: int = 0
    drift: float | None = None
    tripped: bool = False
    selected: dict[Site, Tensor] = field(default_factory=dict)


class ContextFfn:
    """``y_S = FFN(x_S); y_i = y_ref_i`` with S = text rows and the rows of largest drift.

    At the first site, before anything is copied, the mean drift of each view's rows is compared
    with that view's limit; where one is exceeded the whole prefill runs densely.
    """

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        state: PrefixState,
        visual: Tensor,
        text: Tensor,
        rho_p: float,
        drift_limits: Tensor,
        fence: bool = True,
    ) -> None:
        """visual, text: int64 row numbers that partition the prefix; batch 1 only.

        drift_limits: [views]; every view has the same number of rows, in the order of ``visual``.
        fence: False measures the drift but never falls back.
        """
        self._modules = modules
        self._state = state
        self._visual = visual
        self._text = text
        self._rho_p = rho_p
        self._drift_limits, self._fence = drift_limits, fence
        self.trace = ContextTrace()

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """x [1, T, D] -> y [1, T, D]."""
        mlp, trace = self._modules[site], self.trace
        if trace.tripped:
            return mlp(x)
        rows = x[0]
        drift = token_drift(rows.index_select(0, self._visual), self._state.x[site])
        recompute, keep = select_rows(drift, self._rho_p)
        if trace.sites == 0 and self._exceeds(drift, keep):
            return mlp(x)
        computed = torch.cat((self._visual[recompute], self._text)).sort().values
        y = context_ffn(
            mlp, rows, computed, self._visual[keep], self._state.y[site].index_select(0, keep)
        )
        trace.sites += 1
        trace.computed_rows += computed.shape[0]
        trace.copied_rows += keep.shape[0]
        trace.selected[site] = computed
        return y.unsqueeze(0)

    def _exceeds(self, drift: Tensor, keep: Tensor) -> bool:
        if keep.shape[0]:
            ratio = view_drift(drift, self._drift_limits.shape[0]) / self._drift_limits
            self.trace.drift = float(ratio.max())
            # Not ">": a drift that is not a number must not pass.
            self.trace.tripped = self._fence and not self.trace.drift <= 1
        return self.trace.tripped
