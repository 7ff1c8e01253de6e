"""Calibration of the drift fence and the guard on the library itself, leave-one-episode-out.

How far do the rows of each view of one normal episode lie from the best match in the other normal
episodes, and what would copying them do to the actions? A call with a view that lies farther than
nearly all of those is not a repetition (the fence; the views have limits of their own: what is
normal for a wrist camera may be a covered high camera). The action error per drift left to copy is
the slope of the guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.cache.guard import CopyErrors
from rmuscle_ros.kernels.token_drift import view_drift
from rmuscle_ros.memory.entry import Entry, Episode
from rmuscle_ros.memory.retrieval import KeyIndex

MAX_PAIRS = 48
# With fewer pairs nothing is said, unless the library has no more.
FEWEST_PAIRS = 8
# The guard's estimate is what nine of ten pairs stayed below.
SLOPE_QUANTILE = 0.9

Checkpoint = Callable[[], None]
# compare(entry, match, checkpoint): what copying the match's rows does to the entry's call.
Compare = Callable[[Entry, Entry, Checkpoint], CopyErrors]


@dataclass(frozen=True)
class Pair:
    """drift: mean of each view's rows, float32 [views]; slopes: action error per residual."""

    drift: np.ndarray
    slopes: tuple[float, ...]


@dataclass(frozen=True)
class Calibration:
    """Pairs of matching entries, by the id of the entry that plays the call."""

    pairs: Mapping[str, Pair]

    def limits(self, quantile: float, slack: float) -> np.ndarray:
        """The drift of each view above which a call runs densely, float32 [views]."""
        drift = np.stack([pair.drift for pair in self.pairs.values()])
        return (np.quantile(drift, quantile, axis=0) * slack).astype(np.float32)

    @property
    def slope(self) -> float | None:
        """The guard's slope; None when no pair drifted at all, so that nothing can be said."""
        slopes = [slope for pair in self.pairs.values() for slope in pair.slopes]
        return float(np.quantile(slopes, SLOPE_QUANTILE)) if slopes else None


def calibrate(
    episodes: Sequence[Episode],
    compare: Compare,
    checkpoint: Checkpoint,
    least_similarity: float,
    known: MutableMapping[str, Pair],
) -> Iterator[Calibration]:
    """Ever better calibrations of one task; none when no pair can be found.

    Pairs below ``least_similarity`` do not count: they are no repetitions.
    known: pairs measured before, by entry; they are not measured again, and new ones are added.
    """
    if len(episodes) < 2:
        return
    checkpoint()
    pairs: dict[str, Pair] = {}
    for entry, match, similarity in matching_pairs(episodes, MAX_PAIRS):
        if similarity < least_similarity:
            continue
        if entry.id not in known:
            known[entry.id] = _measured(compare(entry, match, checkpoint), entry)
        pairs[entry.id] = known[entry.id]
        if len(pairs) >= FEWEST_PAIRS:
            yield Calibration(dict(pairs))
    if 0 < len(pairs) < FEWEST_PAIRS:
        yield Calibration(pairs)


def _measured(copied: CopyErrors, entry: Entry) -> Pair:
    drift = view_drift(copied.row_drift, len(entry.inputs.cameras))
    return Pair(drift.cpu().numpy(), tuple(copied.slopes()))


def matching_pairs(episodes: Sequence[Episode], most: int) -> Iterator[tuple[Entry, Entry, float]]:
    """At most ``most`` entries, each with the most similar of any other episode and their
    similarity, in an order that covers all episodes early.

    Lazy: a large library must not be searched in one piece while a call waits.
    """
    index = KeyIndex(episodes)
    by_id = {episode.id: episode for episode in episodes}
    entries = [entry for episode in episodes for entry in episode.entries]
    for number in np.random.default_rng(0).permutation(len(entries))[:most]:
        entry = entries[number]
        others = [
            (float(values.max()), other_id, int(values.argmax()))
            for other_id, values in index.similarities(entry.key).items()
            if other_id != entry.episode_id
        ]
        similarity, other_id, position = max(others)
        yield entry, by_id[other_id].entries[position], similarity
