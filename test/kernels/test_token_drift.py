import itertools
import math

import pytest
import torch

from rmuscle_ros.kernels.token_drift import select_rows, token_drift, view_drift


def test_drift_is_relative_rms_change():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    x_ref = torch.tensor([[3.0, 4.0], [1.0, 1.0], [0.0, 0.0]])
    drift = token_drift(x, x_ref)
    assert drift[0] == 0
    assert drift[1] == pytest.approx(1.0 / 1e-6)
    assert drift[2] == pytest.approx(1.0)


def test_drift_is_a_root_mean_square():
    drift = token_drift(torch.tensor([[5.0, 5.0]]), torch.tensor([[2.0, 1.0]]))
    assert drift[0] == pytest.approx(((9 + 16) / 2) ** 0.5 / 5)


def test_view_drift_averages_the_rows_of_each_view():
    assert view_drift(torch.tensor([1.0, 3.0, 5.0, 5.0]), views=2).tolist() == [2.0, 5.0]


def test_drift_is_computed_in_float32():
    x = torch.full((2, 3), 256.0, dtype=torch.bfloat16)
    drift = token_drift(x, torch.full((2, 3), 255.0, dtype=torch.bfloat16))
    assert drift.dtype == torch.float32
    assert drift[0] == pytest.approx(1 / 256)


@pytest.mark.parametrize('rho_p', [0.0, 0.01, 0.3, 0.5, 0.999, 1.0])
def test_selection_takes_the_largest_and_splits_all_rows(rho_p):
    drift = torch.rand(37, generator=torch.Generator().manual_seed(1))
    recompute, keep = select_rows(drift, rho_p)
    assert recompute.shape[0] == math.ceil(rho_p * 37)
    assert sorted([*recompute.tolist(), *keep.tolist()]) == list(range(37))
    assert recompute.tolist() == sorted(recompute.tolist())
    if len(recompute) and len(keep):
        assert drift[recompute].min() >= drift[keep].max()


def test_ties_go_to_the_lower_row():
    recompute, _ = select_rows(torch.tensor([1.0, 2.0, 1.0, 1.0]), 0.5)
    assert recompute.tolist() == [0, 1]


def test_count_is_not_raised_by_rounding():
    # 0.07 * 100 is 7.000000000000001 in binary
    assert select_rows(torch.rand(100), 0.07)[0].shape[0] == 7


def test_selected_sets_nest():
    drift = torch.rand(23, generator=torch.Generator().manual_seed(2)).round(decimals=1)
    sets = [set(select_rows(drift, rho / 10)[0].tolist()) for rho in range(11)]
    assert all(small <= large for small, large in itertools.pairwise(sets))
