"""Calibration of the drift fence on the library itself, leave-one-episode-out.

How far do the visual rows of one normal episode lie from the best match in the other normal
episodes? A call whose rows lie farther than nearly all of those is not a repetition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch import Tensor

from rmuscle_ros.kernels.token_drift import token_drift
from rmuscle_ros.memory.entry import Entry, Episode
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.types import ModelInputs

MAX_PAIRS = 64

FirstSiteInput = Callable[[ModelInputs, Callable[[], None]], Tensor]


class DriftCalibration:
    """Drift of every visual row, sorted ascending, for pairs of matching entries: [P, V]."""

    def __init__(self, drift: np.ndarray) -> None:
        drift = np.sort(drift, axis=1)
        self._mean_of_lowest = np.cumsum(drift, axis=1) / np.arange(1, drift.shape[1] + 1)

    def copied_drift(self, rho_p: float) -> np.ndarray | None:
        """Mean drift of the rows a call at ``rho_p`` would copy, per pair [P]; None if no row."""
        rows = self._mean_of_lowest.shape[1]
        kept = rows - math.ceil(rho_p * rows - 1e-9)
        return self._mean_of_lowest[:, kept - 1] if kept else None

    def limit(self, rho_p: float, quantile: float, slack: float) -> float | None:
        """The drift above which a call at ``rho_p`` runs densely; None when nothing is copied."""
        copied = self.copied_drift(rho_p)
        return None if copied is None else float(np.quantile(copied, quantile)) * slack


def calibrate(
    episodes: Sequence[Episode],
    first_site_input: FirstSiteInput,
    checkpoint: Callable[[], None],
) -> DriftCalibration | None:
    """Measure pairs of episodes of one task; None with fewer than two episodes.

    first_site_input(inputs, checkpoint) -> [V, D]. At most ``MAX_PAIRS`` pairs, evenly spread.
    """
    if len(episodes) < 2:
        return None
    checkpoint()
    states: dict[str, Tensor] = {}

    def state(entry: Entry) -> Tensor:
        if entry.id not in states:
            states[entry.id] = first_site_input(entry.inputs, checkpoint)
        return states[entry.id]

    drift = [
        token_drift(state(entry), state(match)).cpu().numpy()
        for entry, match in matching_pairs(episodes, MAX_PAIRS)
    ]
    return DriftCalibration(np.stack(drift))


def matching_pairs(episodes: Sequence[Episode], most: int) -> Iterator[tuple[Entry, Entry]]:
    """At most ``most`` entries, evenly spread, each with the most similar of any other episode.

    Lazy: a large library must not be searched in one piece while a call waits.
    """
    index = KeyIndex(episodes)
    by_id = {episode.id: episode for episode in episodes}
    entries = [entry for episode in episodes for entry in episode.entries]
    for entry in entries[:: math.ceil(len(entries) / most)]:
        others = [
            (float(values.max()), other_id, int(values.argmax()))
            for other_id, values in index.similarities(entry.key).items()
            if other_id != entry.episode_id
        ]
        _, other_id, position = max(others)
        yield entry, by_id[other_id].entries[position]
