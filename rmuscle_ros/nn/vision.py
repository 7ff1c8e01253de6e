"""A small vision transformer per view, with a convolutional patch stem.

The stem localises small objects better than one linear patch projection does at this size
(7 mm against 26 mm for a 4 cm cube in a trial).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmuscle_ros.nn.mlp import PlainMlp
from rmuscle_ros.types import VISION, Site


class VisionLayer(nn.Module):
    """Pre-norm ViT layer; the MLP goes through the FFN seam."""

    def __init__(self, index: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.site = Site(VISION, index)
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.o_proj = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = PlainMlp(width, hidden)

    def forward(self, x: Tensor, ffn: Callable[[Site, Tensor], Tensor]) -> Tensor:
        """x [V, N, Dv] -> [V, N, Dv]."""
        views, rows, width = x.shape
        qkv = self.qkv_proj(self.attention_norm(x)).view(views, rows, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.o_proj(out.reshape(views, rows, width))
        return x + ffn(self.site, self.mlp_norm(x))


class VisionTower(nn.Module):
    """uint8 pictures -> patch features."""

    def __init__(
        self, image_size: int, patch_size: int, width: int, layers: int, heads: int, hidden: int
    ) -> None:
        super().__init__()
        stride = patch_size // 4
        if patch_size % 4 or image_size % patch_size:
            raise ValueError(
                f'patch_size {patch_size} must be a multiple of 4 that divides {image_size}'
            )
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, padding=1),
            nn.GELU(approximate='tanh'),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.GELU(approximate='tanh'),
            nn.Conv2d(64, width, 3, stride=stride, padding=1),
        )
        self.position = nn.Parameter(torch.zeros((image_size // patch_size) ** 2, width))
        self.layers = cast(
            Sequence[VisionLayer],
            nn.ModuleList(VisionLayer(i, width, heads, hidden) for i in range(layers)),
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, images: Tensor, ffn: Callable[[Site, Tensor], Tensor]) -> Tensor:
        """images [V, S, S, 3], uint8 RGB -> features [V, N, Dv]."""
        pixels = images.permute(0, 3, 1, 2).to(self.position.dtype) / 127.5 - 1
        x = self.stem(pixels).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x, ffn)
        return self.norm(x)
