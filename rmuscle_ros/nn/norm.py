"""RMS norms: Gemma's ``(1 + w)`` form, and the time-conditioned adaRMS of π0.5's expert."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-6


class RmsNorm(nn.Module):
    """``x / rms(x) * (1 + weight)`` over the last dimension."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, 1 + self.weight, EPS)


class AdaRmsNorm(nn.Module):
    """adaRMS: a dense layer turns the condition into scale, shift and gate of one norm.

    The modulation depends on the denoise step alone, so ``modulation`` runs once per step
    schedule and ``forward`` takes its result.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width)

    def modulation(self, condition: Tensor) -> Tensor:
        """condition [S, D] -> [S, 3, D]: ``1 + scale``, ``shift``, ``gate``."""
        scale, shift, gate = self.dense(condition).chunk(3, dim=-1)
        return torch.stack((1 + scale, shift, gate), dim=-2)

    @staticmethod
    def forward(x: Tensor, modulation: Tensor) -> Tensor:
        """x [..., T, D], modulation [..., 3, D] (no T) -> the normed and modulated x."""
        normed = F.rms_norm(x, x.shape[-1:], None, EPS)
        scale, shift, _ = modulation.unsqueeze(-2).unbind(-3)
        return torch.addcmul(shift, normed, scale)


def gated_residual(x: Tensor, modulation: Tensor, y: Tensor) -> Tensor:
    """``x + gate * y`` with the gate of ``modulation`` [..., 3, D]."""
    return torch.addcmul(x, modulation[..., 2, :].unsqueeze(-2), y)
