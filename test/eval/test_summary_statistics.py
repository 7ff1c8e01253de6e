import numpy as np
import pytest

from rmuscle_ros.statistics import median, needed, quantile, ratio, wilson


@pytest.mark.parametrize(
    ('k', 'n', 'low', 'high'),
    [(0, 5, 0.0, 0.4345), (5, 5, 0.5655, 1.0), (8, 10, 0.4902, 0.9433), (20, 30, 0.4878, 0.8077)],
)
def test_wilson_agrees_with_published_values(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=1e-4)


def test_wilson_of_nothing_is_everything():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(('k', 'n'), [(-1, 3), (4, 3)])
def test_wilson_refuses_impossible_counts(k, n):
    with pytest.raises(ValueError, match='expected 0 <= k <= n'):
        wilson(k, n)


@pytest.mark.parametrize(('q', 'n'), [(0.5, 2), (0.05, 20), (0.95, 20), (0.99, 100)])
def test_a_quantile_needs_one_expected_sample_beyond_it(q, n):
    assert needed(q) == n
    assert quantile(range(n - 1), q) is None
    assert quantile(range(n), q) == pytest.approx(np.quantile(range(n), q))


def test_missing_values_do_not_count_as_zero():
    assert median([None, 4.0, None, 6.0]) == 5.0
    assert median([None, 4.0]) is None


def test_ratio_of_missing_or_zero_is_missing():
    assert ratio(3.0, 4.0) == 0.75
    assert ratio(None, 4.0) is ratio(3.0, None) is ratio(3.0, 0.0) is None
