"""Paired tests and intervals; ``eval/test_summary_statistics`` has quantiles and Wilson's."""

import math

import pytest

from rmuscle_ros.statistics import mcnemar, mean, paired_difference, wilson


@pytest.mark.parametrize(
    ('better', 'worse', 'p'),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 5, 1.0),
        (0, 5, 2 / 2**5),
        (1, 7, 2 * (1 + 8) / 2**8),
        (2, 10, 2 * (1 + 12 + 66) / 2**12),
    ],
)
def test_mcnemar_is_the_exact_two_sided_sign_test(better, worse, p):
    assert mcnemar(better, worse) == pytest.approx(p)
    assert mcnemar(worse, better) == mcnemar(better, worse)


def test_mcnemar_refuses_what_is_no_count():
    with pytest.raises(ValueError, match='found -1 and 2'):
        mcnemar(-1, 2)


def test_the_paired_interval_is_newcombes():
    """Airway reactivity before and after a transplant (Bentur), n = 21; Fagerland et al. 2014."""
    assert paired_difference(1, 1, 7, 12) == pytest.approx((-0.507, -0.026), abs=5e-4)


@pytest.mark.parametrize('table', [(20, 0, 0, 0), (0, 0, 0, 20), (0, 20, 0, 0), (9, 4, 3, 4)])
def test_the_paired_interval_holds_the_difference_and_stays_in_range(table):
    both, first, second, neither = table
    low, high = paired_difference(*table)
    assert -1 <= low <= (first - second) / sum(table) <= high <= 1
    swapped = paired_difference(both, second, first, neither)
    assert swapped == pytest.approx((-high, -low))


def test_pairs_that_go_together_narrow_the_interval():
    together, apart = paired_difference(40, 2, 2, 6), paired_difference(36, 6, 6, 2)
    assert together[1] - together[0] < apart[1] - apart[0]
    # Without correlation the two Wilson intervals join like independent errors.
    low, high = wilson(42, 50)
    reach = math.hypot(42 / 50 - low, high - 42 / 50)
    assert apart[1] - apart[0] == pytest.approx(2 * reach, rel=0.2)


@pytest.mark.parametrize('table', [(0, 0, 0, 0), (3, -1, 0, 0)])
def test_the_paired_interval_refuses_what_is_no_table(table):
    with pytest.raises(ValueError, match='at least one'):
        paired_difference(*table)


def test_the_mean_skips_what_is_missing():
    assert mean([1.0, None, 4.0]) == 2.5
    assert mean([None]) is None
