"""Quantiles that admit when the sample is too small; intervals and a test of success rates."""

from __future__ import annotations

import math
from collections.abc import Iterable


def needed(q: float) -> int:
    """Fewest samples for the quantile ``q``: one expected beyond it (p50: 2, p5: 20, p99: 100)."""
    return math.ceil(round(1.0 / min(q, 1.0 - q), 6))


def quantile(values: Iterable[float | None], q: float) -> float | None:
    """Quantile with linear interpolation; ``None`` values are skipped.

    None when fewer than ``needed(q)`` values are left. ``0 < q < 1``.
    """
    present = sorted(value for value in values if value is not None)
    if len(present) < needed(q):
        return None
    position = q * (len(present) - 1)
    below = math.floor(position)
    above = min(below + 1, len(present) - 1)
    return present[below] + (position - below) * (present[above] - present[below])


def median(values: Iterable[float | None]) -> float | None:
    """The quantile 0.5: None with fewer than two values."""
    return quantile(values, 0.5)


def largest(values: Iterable[float | None]) -> float | None:
    """The maximum of the values that are not None; None when there is none."""
    return max((value for value in values if value is not None), default=None)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None when there is none."""
    present = [value for value in values if value is not None]
    return math.fsum(present) / len(present) if present else None


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """``numerator / denominator``; None when either is missing or the denominator is 0."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator


def wilson(k: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a proportion, 95 % by default (Wilson 1927, JASA 22).

    k successes of n trials -> ``(low, high)``, each in [0, 1]; (0, 1) when n is 0. Unlike the
    normal interval it stays inside [0, 1] and keeps a width at k = 0 and k = n.
    """
    if not 0 <= k <= n:
        raise ValueError(f'wilson: found {k} successes of {n} trials, expected 0 <= k <= n')
    if n == 0:
        return 0.0, 1.0
    share = k / n
    scale = 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n)) / scale
    # Rounding must not leave 1e-17 where the interval touches 0 or 1.
    return (0.0 if k == 0 else centre - half), (1.0 if k == n else centre + half)


def mcnemar(better: int, worse: int) -> float:
    """McNemar's exact test of paired outcomes: the two-sided p-value (binomial, p = 1/2).

    better, worse: pairs in which only the first, or only the second, succeeded. 1 when there is no
    such pair. (McNemar 1947, Psychometrika 12; the exact form is a sign test.)
    """
    if better < 0 or worse < 0:
        raise ValueError(f'mcnemar: found {better} and {worse}, expected counts of pairs')
    n = better + worse
    tail = sum(math.comb(n, k) for k in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**n)


def paired_difference(
    both: int, first: int, second: int, neither: int, z: float = 1.959964
) -> tuple[float, float]:
    """Interval of the difference of two paired proportions, 95 % by default.

    both, first, second, neither: pairs in which both, only the first, only the second or none
    succeeded -> ``(low, high)`` of P(first) - P(second). Newcombe's method 10: Wilson's intervals
    joined by the pairs' correlation (Newcombe 1998, Statistics in Medicine 17, 2635-2650).
    """
    n = both + first + second + neither
    if min(both, first, second, neither) < 0 or n == 0:
        raise ValueError(
            f'paired_difference: found {both}, {first}, {second}, {neither}, expected counts of '
            'pairs, at least one'
        )
    p, q = (both + first) / n, (both + second) / n
    (p_low, p_high), (q_low, q_high) = wilson(both + first, n, z), wilson(both + second, n, z)
    phi = _correlation(both, first, second, neither)

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    return p - q - reach(p - p_low, q_high - q), p - q + reach(p_high - p, q - q_low)


def _correlation(both: int, first: int, second: int, neither: int) -> float:
    """The pairs' correlation as Newcombe corrects it: a positive one shrinks, at least to 0."""
    n = both + first + second + neither
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if not margins:
        return 0.0
    excess = both * neither - first * second
    return (max(excess - n / 2, 0.0) if excess > 0 else excess) / math.sqrt(margins)
