"""Timing of variants in turn, so that a machine whose speed drifts treats all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one variant: stage name -> all counted runs."""

    runs: Mapping[str, list[float]]

    def p50(self, *stages: str) -> float:
        """Median over runs of the sum of ``stages``."""
        return statistics.median(self._sums(stages))

    def minimum(self, *stages: str) -> float:
        return min(self._sums(stages))

    def _sums(self, stages: tuple[str, ...]) -> list[float]:
        return [sum(parts) for parts in zip(*(self.runs[s] for s in stages), strict=True)]


def alternate(
    variants: Mapping[str, Callable[[], Mapping[str, float]]], repeats: int, warm_up: int = 3
) -> dict[str, Timing]:
    """Run all variants one after the other, ``repeats`` times over, after ``warm_up`` rounds.

    A variant returns its stages' milliseconds. The order within a round rotates, so that no
    variant always follows the same other one.
    """
    names = list(variants)
    runs: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for round_ in range(warm_up + repeats):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            stages = variants[name]()
            if round_ >= warm_up:
                for stage, ms in stages.items():
                    runs[name].setdefault(stage, []).append(ms)
    return {name: Timing(stages) for name, stages in runs.items()}
