"""drift_i = rms(x_i - x_ref_i) / max(rms(x_i), 1e-6), fp32; the largest are selected.

Source: the Context Cache rule of rMuscle (arXiv 2609.19104), with the normalisation by rms(x)
fixed by this project (docs/decisions.md).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOOR = 1e-6


def token_drift(x: Tensor, x_ref: Tensor) -> Tensor:
    """x, x_ref [V, D] -> drift [V], fp32."""
    x = x.float()
    change = (x - x_ref.float()).square().mean(-1)
    scale = x.square().mean(-1)
    return change.sqrt() / scale.sqrt().clamp_min(FLOOR)


def view_drift(drift: Tensor, views: int) -> Tensor:
    """drift [V] of the rows of ``views`` equal views, one after the other -> means [views]."""
    return drift.view(views, -1).mean(-1)


def select_rows(drift: Tensor, rho_p: float) -> tuple[Tensor, Tensor]:
    """Split rows into the ``ceil(rho_p * V)`` of largest drift and the rest.

    drift [V] -> (recompute, keep): int64 row numbers, each ascending. Ties go to the lower row
    number, so that the sets nest as ``rho_p`` grows.
    """
    count = math.ceil(rho_p * drift.shape[0] - 1e-9)
    order = torch.argsort(drift, descending=True, stable=True)
    return order[:count].sort().values, order[count:].sort().values
