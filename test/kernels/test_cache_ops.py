import torch

from rmuscle_ros.kernels.context_ffn import context_ffn
from rmuscle_ros.kernels.sparse_ffn import sparse_ffn


def test_context_ffn_computes_rows_and_copies_the_rest():
    x = torch.randn(7, 3)
    rows, kept = torch.tensor([0, 2, 6]), torch.tensor([1, 3, 4, 5])
    y_kept = torch.randn(4, 3)
    y = context_ffn(lambda rows_: rows_ * 2, x, rows, kept, y_kept)
    assert torch.equal(y[rows], x[rows] * 2)
    assert torch.equal(y[kept], y_kept)


def test_context_ffn_leaves_no_hole_when_nothing_is_computed():
    x = torch.randn(4, 3)
    none, every = torch.tensor([], dtype=torch.int64), torch.arange(4)
    y = context_ffn(lambda rows: rows, x, none, every, x + 1)
    assert torch.equal(y, x + 1)


def test_sparse_ffn_adds_the_change_of_the_masked_neurons():
    h, h_anchor = torch.randn(5, 4), torch.randn(5, 4)
    y_anchor, down = torch.randn(5, 3), torch.randn(4, 3)
    expected = y_anchor + (h - h_anchor) @ down
    assert torch.allclose(sparse_ffn(h, h_anchor, y_anchor, down), expected, atol=1e-6)
