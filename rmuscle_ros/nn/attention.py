"""Multi-query attention as in Gemma: many query heads, one key/value head, one fused product."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from rmuscle_ros.nn.rope import rotate


class MultiQueryAttention(nn.Module):
    """Fused QKV projection, RoPE, scaled dot product over one shared key/value head, output."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width
        self.qkv_proj = nn.Linear(width, (heads + 2) * head_width, bias=False)
        self.o_proj = nn.Linear(heads * head_width, width, bias=False)

    def project(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, D] -> q [B, heads, T, w], k and v [B, 1, T, w]."""
        batch, rows, _ = x.shape
        qkv = self.qkv_proj(x).view(batch, rows, self.heads + 2, self.head_width).transpose(1, 2)
        rotated = rotate(qkv[:, :-1], rope)
        return rotated[:, :-1], rotated[:, -1:], qkv[:, -1:]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """q [B, heads, R, w], k and v [B, 1, T, w], mask [B, 1, 1, T] (True = seen) -> [B, R, D].

        Without a per-row mask all heads and rows are queries of the same keys, so the heads are
        folded into the rows and K/V are never copied per head.
        """
        batch, heads, rows, width = q.shape
        folded = q.reshape(batch, 1, heads * rows, width)
        out = F.scaled_dot_product_attention(folded, k, v, attn_mask=mask)
        out = out.view(batch, heads, rows, width).transpose(1, 2)
        return self.o_proj(out.reshape(batch, rows, heads * width))


class KeyValueProjection(nn.Module):
    """The live part of a last prefix layer whose output nobody reads: its keys and values."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.kv_proj = nn.Linear(width, 2 * head_width, bias=False)

    def forward(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, D] -> k and v [B, 1, T, w]."""
        k, v = self.kv_proj(x).unsqueeze(1).chunk(2, dim=-1)
        return rotate(k, rope), v
