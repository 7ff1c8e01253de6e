"""Multi-query attention as in Gemma: many query heads, one key/value head, one fused product."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from rmuscle_ros.nn.rope import rotate


class MultiQueryAttention(nn.Module):
    """Fused QKV projection, RoPE, scaled dot product over one shared key/value head, output.

    ``output=False`` keeps only keys and values: the last prefix layer of a model whose action
    head reads K/V needs nothing else.
    """

    def __init__(self, width: int, heads: int, head_width: int, *, output: bool = True) -> None:
        super().__init__()
        self.heads = heads if output else 0
        self.head_width = head_width
        self.qkv_proj = nn.Linear(width, (self.heads + 2) * head_width, bias=False)
        self.o_proj = nn.Linear(heads * head_width, width, bias=False) if output else None

    def project(self, x: Tensor, rope: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """x [B, T, D] -> q [B, heads, T, w] (None without output), k and v [B, 1, T, w]."""
        batch, rows, _ = x.shape
        qkv = self.qkv_proj(x).view(batch, rows, self.heads + 2, self.head_width).transpose(1, 2)
        rotated = rotate(qkv[:, :-1], rope)
        q = rotated[:, :-1] if self.heads else None
        return q, rotated[:, -1:], qkv[:, -1:]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """q [B, heads, R, w], k and v [B, 1, T, w], mask [B, 1, 1, T] (True = seen) -> [B, R, D].

        Without a per-row mask all heads and rows are queries of the same keys, so the heads are
        folded into the rows and K/V are never copied per head.
        """
        if self.o_proj is None:
            raise TypeError('this attention keeps only keys and values (output=False)')
        batch, heads, rows, width = q.shape
        folded = q.reshape(batch, 1, heads * rows, width)
        out = F.scaled_dot_product_attention(folded, k, v, attn_mask=mask)
        out = out.view(batch, heads, rows, width).transpose(1, 2)
        return self.o_proj(out.reshape(batch, rows, heads * width))
