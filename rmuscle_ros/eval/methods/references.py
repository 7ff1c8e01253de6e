"""The most similar past call, for methods that reuse what it answered."""

from __future__ import annotations

import numpy as np

from rmuscle_ros.memory.entry import TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.memory.memory import Match
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.types import Reason


class References:
    """Searches all entries of a task's episodes by visual key, as the caches' retrieval does."""

    def __init__(self, library: Library, least_similarity: float) -> None:
        """least_similarity: the cosine below which no entry serves a call."""
        self._library = library
        self._least = least_similarity
        self._indices: dict[TaskKey, tuple[int, KeyIndex]] = {}

    def search(self, key: np.ndarray, task: TaskKey) -> Match:
        """The entry for a call with visual ``key`` [K], or the reason why none serves it."""
        episodes = self._library.of_task(task)
        if not episodes:
            return Match(Reason.NO_REFERENCE, f'no episode of this task ({task.instruction!r})')
        count, index = self._indices.get(task, (0, None))
        if index is None or count != len(episodes):
            index = KeyIndex(episodes)
            self._indices[task] = len(episodes), index
        similarities = index.similarities(key)
        best = max(episodes, key=lambda episode: similarities[episode.id].max())
        position = int(similarities[best.id].argmax())
        similarity = float(similarities[best.id][position])
        # Not "<": a similarity that is not a number must not pass.
        if not similarity >= self._least:
            detail = f'{similarity:.3f} < {self._least:g}'
            return Match(Reason.FALLBACK_SIMILARITY, detail, similarity)
        return Match(Reason.CACHED, '', similarity, best.entries[position])
