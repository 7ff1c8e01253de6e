"""Quantiles that admit when the sample is too small, and Wilson's interval. Pure Python."""

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
