"""Entries without contents, for tests of what looks at keys and positions only."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from rmuscle_ros.memory.entry import Entry, Episode, TaskKey

TASK = TaskKey('task', 'model', ('cam', 'other'))


def bare_entry(episode_id: str, position: int, key: Any = None) -> Entry:
    """An entry of which nothing else is set but the cameras of TASK."""
    inputs: Any = SimpleNamespace(cameras=TASK.cameras)
    nothing: Any = None
    return Entry(
        episode_id,
        position,
        inputs=inputs,
        key=key,
        masks=nothing,
        noise=nothing,
        actions=nothing,
        velocity=nothing,
    )


def episode_of_keys(name: str, keys: np.ndarray) -> Episode:
    """keys [entries, K] of any length; an entry's key has length 1."""
    keys = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
    entries = (bare_entry(name, i, key.astype(np.float32)) for i, key in enumerate(keys))
    return Episode(name, TASK, True, tuple(entries))


def station_keys(phases: Any) -> np.ndarray:
    """Keys of one station [phases, 8]: a large common part and a phase (rad) on a circle."""
    angle = np.asarray(phases, float)[:, None]
    common = np.ones((len(angle), 6))
    return np.concatenate((common, 0.5 * np.cos(angle), 0.5 * np.sin(angle)), axis=1)
