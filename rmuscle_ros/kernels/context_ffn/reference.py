"""y_S = FFN(x_S); y_i = y_ref_i for the other rows."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def context_ffn(
    ffn: Callable[[Tensor], Tensor],
    x: Tensor,
    rows: Tensor,
    kept: Tensor,
    y_kept: Tensor,
) -> Tensor:
    """Compute ``rows``, copy ``kept``.

    x [T, D]; rows int64 [S] to compute, ascending; kept int64 [T - S]; y_kept [T - S, D].
    ``rows`` and ``kept`` must partition 0..T-1, else rows of the result stay undefined.
    """
    y = x.new_empty(x.shape)
    y.index_copy_(0, rows, ffn(x.index_select(0, rows)))
    y.index_copy_(0, kept, y_kept.to(y.dtype))
    return y
