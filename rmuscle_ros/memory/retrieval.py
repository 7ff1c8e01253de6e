"""Similarity of visual keys: a cosine, centred on the library, with a floor on the spread.

Mean-pooled features of one station all point the same way, so a plain cosine is near 1 for
everything, a covered camera included. Keys are therefore centred by the mean of the task's
library. Where the library itself hardly varies (an arm that stands still), centring alone would
magnify noise; the floor ``c`` keeps that in bounds:

    similarity(k, r) = ((k - m)·(r - m) + c²) / sqrt((|k - m|² + c²) (|r - m|² + c²))

c = 0 is the centred cosine, c → ∞ the constant 1. docs/decisions.md has the distributions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rmuscle_ros.memory.entry import Episode

SPREAD_FLOOR = 0.05


class KeyIndex:
    """Centred keys of all entries of one task's episodes. Immutable."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        """``episodes`` must not be empty."""
        keys = np.stack([entry.key for episode in episodes for entry in episode.entries])
        self._mean = keys.mean(0)
        self._keys = self._centred(keys)
        ends = np.cumsum([len(episode.entries) for episode in episodes])
        self._rows = {
            episode.id: slice(end - len(episode.entries), end)
            for episode, end in zip(episodes, ends, strict=True)
        }

    def similarities(self, key: np.ndarray) -> dict[str, np.ndarray]:
        """Similarity of ``key`` [K] to every entry: episode id -> [entries], -1 to 1."""
        cosine = self._keys @ self._centred(key)
        return {episode_id: cosine[rows] for episode_id, rows in self._rows.items()}

    def _centred(self, keys: np.ndarray) -> np.ndarray:
        """[..., K] -> [..., K + 1], unit length; the last component carries the floor."""
        floor = np.full((*keys.shape[:-1], 1), SPREAD_FLOOR, keys.dtype)
        augmented = np.concatenate((keys - self._mean, floor), axis=-1)
        return augmented / np.linalg.norm(augmented, axis=-1, keepdims=True)
