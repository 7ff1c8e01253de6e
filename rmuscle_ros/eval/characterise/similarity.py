"""Best matches by visual key, and how similar calls of several kinds are to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmuscle_ros.eval.characterise.record import Call, Recording
from rmuscle_ros.kernels.token_drift import token_drift, view_drift
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.statistics import median, quantile

# Calls at least this far apart, in their episodes, count as another phase of the task.
OTHER_PHASE_CALLS = 3


@dataclass(frozen=True)
class Match:
    """The most similar recorded call. similarity: the library's; cosine: of the plain keys."""

    call: Call
    similarity: float
    cosine: float


class References:
    """The calls of some recordings, searched by visual key over all episodes at once."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.calls = [call for recording in recordings for call in recording.calls]
        self._index = KeyIndex([recording.episode for recording in recordings])
        self._numbers = np.array([call.entry.position for call in self.calls])

    def best(self, call: Call) -> Match:
        """The best match among all entries."""
        return self._match(call, np.arange(len(self.calls)))

    def best_other_phase(self, call: Call) -> Match | None:
        """The best match ``OTHER_PHASE_CALLS`` or more away in its episode; None without any."""
        apart = np.abs(self._numbers - call.entry.position) >= OTHER_PHASE_CALLS
        return self._match(call, np.flatnonzero(apart)) if apart.any() else None

    def _match(self, call: Call, allowed: np.ndarray) -> Match:
        similarity = np.concatenate(list(self._index.similarities(call.entry.key).values()))
        chosen = int(allowed[similarity[allowed].argmax()])
        match = self.calls[chosen]
        return Match(match, float(similarity[chosen]), float(call.entry.key @ match.entry.key))


def record_of(call: Call, match: Match, limits: np.ndarray) -> dict[str, Any]:
    """A call and its match in numbers.

    limits: float32 [views], the drift fence; drift is in units of it, camera -> ratio.
    """
    (x, *_), (x_ref, *_) = (c.activity.x.values() for c in (call, match.call))
    drift = view_drift(token_drift(x, x_ref), len(limits)).numpy() / limits
    return {
        'call': call.entry.position,
        'similarity': match.similarity,
        'cosine': match.cosine,
        'drift': dict(zip(call.entry.inputs.cameras, map(float, drift), strict=True)),
    }


def along_episodes(records: Sequence[dict[str, Any]], cameras: Sequence[str]) -> dict[str, Any]:
    """Median and p5 to p95 of similarity and drift per call number; None with too few episodes.

    -> lists of one item per call number; 'episodes' counts those that had such a call.
    """
    numbers = sorted({record['call'] for record in records})
    groups = [[r for r in records if r['call'] == number] for number in numbers]

    return {
        'call': numbers,
        'episodes': [len(group) for group in groups],
        'similarity': [spread([r['similarity'] for r in group]) for group in groups],
        'drift': {
            camera: [spread([r['drift'][camera] for r in group]) for group in groups]
            for camera in cameras
        },
    }


def study(
    kinds: Mapping[str, Sequence[tuple[Call, Match]]],
    limits: np.ndarray,
    cameras: Sequence[str],
    fence: float,
) -> dict[str, Any]:
    """Similarity and drift of calls and their matches, by kind, along the episodes and in all.

    limits: float32 [views], the drift fence; fence: the similarity fence.
    """
    records = {
        kind: [record_of(call, match, limits) for call, match in pairs]
        for kind, pairs in kinds.items()
    }
    return {
        'fence': fence,
        'drift_limits': dict(zip(cameras, map(float, limits), strict=True)),
        'kinds': {
            kind: {
                'all': _overall(rows, fence),
                'along': along_episodes(rows, cameras),
                'calls': rows,
            }
            for kind, rows in records.items()
        },
    }


def _overall(records: Sequence[dict[str, Any]], fence: float) -> dict[str, Any]:
    """Quantiles over all calls, and how many of them each fence would let pass."""
    worst = [max(record['drift'].values()) for record in records]
    similar = [record['similarity'] >= fence for record in records]
    return {
        'similarity': spread([record['similarity'] for record in records]),
        'cosine': spread([record['cosine'] for record in records]),
        'worst_drift': spread(worst),
        'calls': len(records),
        'above_similarity_fence': sum(similar),
        'within_both_fences': sum(a and d <= 1 for a, d in zip(similar, worst, strict=True)),
    }


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """p5, p50 and p95, None where the values are too few for it."""
    return {
        'p5': quantile(values, 0.05),
        'p50': median(values),
        'p95': quantile(values, 0.95),
    }
