"""y = y_a + (h_M - h_a,M) W_down[M], the Action Cache's non-anchor step.

Source: rMuscle (arXiv 2609.19104): non-anchor denoise steps compute the masked neurons M only
and add their change to the dense anchor step of the same call.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sparse_ffn(h: Tensor, h_anchor: Tensor, y_anchor: Tensor, down: Tensor) -> Tensor:
    """h, h_anchor [R, K] of the masked neurons, y_anchor [R, D], down [K, D] -> y [R, D]."""
    return torch.addmm(y_anchor, h - h_anchor, down)
