"""Which episodes the demo runs, in which order, and with which settings. No rclpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmuscle_ros.config import PolicyConfig
from rmuscle_ros.eval.records import CACHED, DENSE, REFERENCE

COMPARISON_SEED_OFFSET = 100
# A policy that fails now and then still leaves enough references.
MOST_RETRIES = 2
RETRY_SEED_OFFSET = 10_000
SEED_POLICY = (
    'reference episodes: seed, seed + 1, ...; cached ones: seed + 100, seed + 101, ..., so that '
    'no scene was recorded before; each dense one has the scene of the cached one next to it'
)


@dataclass(frozen=True)
class PlannedEpisode:
    """One episode to run; ``index`` counts within its kind."""

    kind: str
    index: int
    seed: int

    @property
    def recorded(self) -> bool:
        return self.kind == REFERENCE

    @property
    def cache_enabled(self) -> bool:
        return self.kind == CACHED


def plan(reference: int, cached: int, dense: int, seed: int) -> list[PlannedEpisode]:
    """References first, then dense episodes spread evenly among the cached ones (C D C C D C C).

    Interleaving keeps a machine that slows down over time from favouring one kind. Scenes: see
    ``SEED_POLICY``.
    """
    episodes = [PlannedEpisode(REFERENCE, i, seed + i) for i in range(reference)]
    first = seed + COMPARISON_SEED_OFFSET
    # Dense episode j comes once this many cached ones have run.
    after = [int((j + 0.5) * cached / dense) for j in range(dense)]
    for done in range(cached + 1):
        if done > 0:
            episodes.append(PlannedEpisode(CACHED, done - 1, first + done - 1))
        for j in (j for j, count in enumerate(after) if count == done):
            partner = max(0, done - 1) if dense <= cached else j
            episodes.append(PlannedEpisode(DENSE, j, first + partner))
    return episodes


def replacement(failed: PlannedEpisode, references: int) -> PlannedEpisode | None:
    """Another scene for a reference episode that was not admitted; None after as many tries again.

    references: how many were planned.
    """
    index = failed.index + references
    if failed.kind != REFERENCE or index >= references * (1 + MOST_RETRIES):
        return None
    return PlannedEpisode(REFERENCE, index, failed.seed + RETRY_SEED_OFFSET)


def untrained(parameters: Mapping[str, Any]) -> bool:
    """Whether the policy has random weights, which never succeed."""
    return not parameters.get('model.checkpoint', PolicyConfig().model.checkpoint)
