"""Calibration of the drift fence on the library itself, leave-one-episode-out.

How far do the rows of each view of one normal episode lie from the best match in the other normal
episodes? A call with a view that lies farther than nearly all of those is not a repetition. The
views have limits of their own: what is normal for a wrist camera may be a covered high camera.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.kernels.token_drift import token_drift, view_drift
from rmuscle_ros.memory.entry import Entry, Episode
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.types import ModelInputs

MAX_PAIRS = 64

FirstSiteInput = Callable[[ModelInputs, Callable[[], None]], Tensor]


@dataclass(frozen=True)
class DriftCalibration:
    """drift: mean drift of each view for pairs of matching entries, float32 [P, views]."""

    drift: np.ndarray

    def limits(self, quantile: float, slack: float) -> np.ndarray:
        """The drift of each view above which a call runs densely, float32 [views]."""
        return (np.quantile(self.drift, quantile, axis=0) * slack).astype(np.float32)


def calibrate(
    episodes: Sequence[Episode],
    first_site_input: FirstSiteInput,
    checkpoint: Callable[[], None],
    similarity_threshold: float,
) -> DriftCalibration | None:
    """Measure pairs of episodes of one task; None when there are none.

    Pairs below ``similarity_threshold`` do not count: the similarity fence would stop them.
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
        view_drift(token_drift(state(entry), state(match)), len(entry.inputs.cameras))
        for entry, match, similarity in matching_pairs(episodes, MAX_PAIRS)
        if similarity >= similarity_threshold
    ]
    return DriftCalibration(torch.stack(drift).cpu().numpy()) if drift else None


def matching_pairs(episodes: Sequence[Episode], most: int) -> Iterator[tuple[Entry, Entry, float]]:
    """At most ``most`` entries, evenly spread, each with the most similar of any other episode and
    their similarity.

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
        similarity, other_id, position = max(others)
        yield entry, by_id[other_id].entries[position], similarity
