"""Compact records of densely executed calls: small enough to keep, enough to replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.types import ModelInputs


@dataclass(frozen=True)
class TaskKey:
    """What a reference must share with a call to serve it. Never compared approximately.

    fingerprint covers weights, sizes, input processing and precision of the model.
    """

    instruction: str
    fingerprint: str
    cameras: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One call of a reference episode.

    key: float32 [K], L2-normalised visual key; masks: neuron rank levels;
    noise, actions: float32 [H, A], normalised units, for replay and other methods;
    velocity: float16 [steps, H, A], the network's output in every denoise step.
    """

    episode_id: str
    position: int
    inputs: ModelInputs
    key: np.ndarray
    masks: NeuronMasks
    noise: np.ndarray
    actions: np.ndarray
    velocity: np.ndarray

    @property
    def id(self) -> str:
        return f'{self.episode_id}/{self.position}'


@dataclass(frozen=True)
class Episode:
    """A recorded, densely executed episode. success is what ``end_episode`` was told."""

    id: str
    task: TaskKey
    success: bool
    entries: tuple[Entry, ...]
