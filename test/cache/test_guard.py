"""The guard: the drift that is left to copy, and the least work that stays within the budget."""

import math

import pytest
import torch

from rmuscle_ros.cache.guard import SHARES, CopyErrors, Guard, residual
from rmuscle_ros.kernels.token_drift import select_rows

NAN, INF = math.nan, math.inf
# 37 rows: no share of them is whole.
DRIFT = torch.rand(37, generator=torch.Generator().manual_seed(4)) ** 3


def naive_residual(drift, share):
    """Sum over the rows that the Context Cache copies, one by one."""
    _, kept = select_rows(drift, share)
    return sum(float(drift[row]) for row in kept) / len(drift)


@pytest.mark.parametrize('share', [0.0, 0.01, 0.2, 0.4, 0.5, 0.95, 1.0])
def test_the_residual_is_that_of_the_rows_that_are_copied(share):
    assert residual(DRIFT, share) == pytest.approx(naive_residual(DRIFT, share), rel=1e-6)


def test_everything_recomputed_leaves_nothing_and_nothing_recomputed_all():
    assert residual(DRIFT, 1.0) == 0.0
    assert residual(DRIFT, 0.0) == pytest.approx(float(DRIFT.mean()))


def test_the_residual_counts_rows_as_the_selection_does():
    # 0.07 * 100 is 7.000000000000001 in binary: 93 rows are left, not 92
    assert residual(torch.ones(100), 0.07) == pytest.approx(0.93)


@pytest.mark.parametrize('slope', [0.5, 3.0])
@pytest.mark.parametrize('expected', SHARES)
def test_the_smallest_share_within_the_budget_is_taken(slope, expected):
    at_limit = slope * naive_residual(DRIFT, expected)
    share, estimate = Guard(slope, at_limit * 1.0001).choose(DRIFT, 0.2)
    assert (share, estimate) == (expected, pytest.approx(at_limit, rel=1e-6))
    share, _ = Guard(slope, at_limit * 0.9999).choose(DRIFT, 0.2)
    assert share is None or share > expected


def test_none_is_taken_when_even_the_largest_share_exceeds_the_budget():
    share, estimate = Guard(2.0, 1e-9).choose(DRIFT, 0.2)
    assert share is None
    assert estimate == pytest.approx(2.0 * naive_residual(DRIFT, 0.8), rel=1e-6)


@pytest.mark.parametrize('least', [0.0, 0.1, 0.3, 0.5, 0.8, 0.9])
def test_no_smaller_share_than_the_least_is_taken(least):
    assert Guard(1.0, INF).choose(DRIFT, least)[0] == least
    # A little less than the least one leaves: the next share of the list.
    budget = naive_residual(DRIFT, least) * 0.9999
    larger = [share for share in SHARES if share > least]
    share, estimate = Guard(1.0, budget).choose(DRIFT, least)
    assert share == (larger[0] if larger else None)
    assert estimate == pytest.approx(naive_residual(DRIFT, share or least), rel=1e-6)


def test_a_least_share_of_everything_is_always_within_the_budget():
    assert Guard(1.0, 0.0).choose(DRIFT, 1.0) == (1.0, 0.0)


@pytest.mark.parametrize('budget', [0.0, 1e9, INF])
def test_a_drift_that_is_not_a_number_is_dense(budget):
    share, estimate = Guard(1.0, budget).choose(torch.full((10,), NAN), 0.2)
    assert share is None
    assert math.isnan(estimate)


def test_rows_without_a_number_are_recomputed_like_those_of_largest_drift():
    drift = torch.cat((torch.tensor([NAN, NAN]), torch.zeros(8)))
    assert Guard(1.0, 0.0).choose(drift, 0.1) == (0.2, 0.0)


def test_slopes_are_errors_per_residual_of_every_share_that_leaves_any():
    errors = CopyErrors(DRIFT, {0.4: 0.03, 0.8: 0.01, 1.0: 0.0})
    expected = [0.03 / naive_residual(DRIFT, 0.4), 0.01 / naive_residual(DRIFT, 0.8)]
    assert errors.slopes() == pytest.approx(expected, rel=1e-6)
    assert CopyErrors(torch.zeros(10), {0.4: 0.0}).slopes() == []
