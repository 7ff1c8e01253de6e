"""Rotary position embedding (Su et al. 2021), rotate-half convention as in Gemma."""

from __future__ import annotations

import torch
from torch import Tensor


def rope_table(positions: Tensor, head_width: int, base: float = 10_000.0) -> Tensor:
    """positions [T] -> [2, T, head_width]: cosines and signed sines, fp32."""
    half = head_width // 2
    exponent = torch.arange(half, dtype=torch.float32, device=positions.device) / half
    angle = positions.float()[:, None] * base**-exponent
    cos = angle.cos().repeat(1, 2)
    sin = torch.cat((-angle.sin(), angle.sin()), dim=-1)
    return torch.stack((cos, sin))


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """x [..., T, head_width] with ``table`` [2, T, head_width] -> x rotated by its position."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)
    return torch.addcmul(x * table[0].to(x.dtype), swapped, table[1].to(x.dtype))
