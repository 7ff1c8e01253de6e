"""The training data in memory, and which of it makes up each batch.

A batch is a function of the run's seed and the step's number alone: a resumed run needs no
state of a random generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.errors import ConfigError, DatasetError
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.train.dataset import DatasetSettings, episode_paths, read_demonstration
from rmuscle_ros.train.settings import TrainSettings


@dataclass(frozen=True)
class Batch:
    """Observations of one task, so that their prefixes have the same rows.

    images: uint8 [B, V, S, S, 3]. states: float32 [B, 14], rad (m for fingers).
    targets: float32 [B, H, 14], joint targets of the clean plan. cubes: float32 [B, 3], m.
    """

    instruction: str
    images: Tensor
    states: Tensor
    targets: Tensor
    cubes: Tensor


class TaskFrames:
    """All observations of one task's episodes."""

    def __init__(self, paths: list[Path], settings: DatasetSettings, horizon: int) -> None:
        episodes = [read_demonstration(path, settings) for path in paths]
        self.task = TASKS[episodes[0].task]
        counts = [len(episode.steps) for episode in episodes]
        # Shared memory: every training process reads the same pictures.
        pictures = (len(settings.cameras), settings.image_size, settings.image_size, 3)
        self._images = torch.zeros((sum(counts), *pictures), dtype=torch.uint8).share_memory_()
        np.concatenate([episode.images for episode in episodes], out=self._images.numpy())
        self.states = np.concatenate([episode.states for episode in episodes])
        self.cubes = np.concatenate([episode.cubes for episode in episodes])
        self.steps = np.concatenate([episode.steps for episode in episodes])
        self._plans = np.stack([episode.plan for episode in episodes])
        self._episode = np.repeat(np.arange(len(episodes)), counts)
        self._rows = np.arange(horizon)

    def __len__(self) -> int:
        return len(self.steps)

    def targets(self, frames: np.ndarray) -> np.ndarray:
        """float32 [len(frames), H, 14]: what the plan does next; it holds its last row."""
        rows = self.steps[frames, None] + self._rows
        rows = np.minimum(rows, self._plans.shape[1] - 1)
        return self._plans[self._episode[frames, None], rows]

    def batch(self, frames: np.ndarray) -> Batch:
        """The observations with these numbers."""
        return Batch(
            instruction=self.task.instruction,
            images=self._images[torch.from_numpy(frames)],
            states=torch.from_numpy(self.states[frames]),
            targets=torch.from_numpy(self.targets(frames)),
            cubes=torch.from_numpy(self.cubes[frames]),
        )


class Samples:
    """Training and validation observations of a dataset."""

    def __init__(
        self, directory: Path, data: DatasetSettings, horizon: int, settings: TrainSettings
    ) -> None:
        self._settings = settings
        paths: dict[str, list[Path]] = {}
        for path in episode_paths(directory):
            paths.setdefault(path.parent.name, []).append(path)
        kept_out = paths.get('transfer_cube', [])[-settings.validation :]
        if settings.validation and len(kept_out) == len(paths.get('transfer_cube', [])):
            raise DatasetError(
                f'{directory}: found {len(kept_out)} episodes of transfer_cube, expected more '
                f'than the {settings.validation} kept out for validation; make more with '
                '`rmuscle train data`'
            )
        self.validation = TaskFrames(kept_out, data, horizon) if settings.validation else None
        self.tasks = [
            TaskFrames([path for path in found if path not in kept_out], data, horizon)
            for found in paths.values()
        ]
        self.episodes = {task: len(found) for task, found in paths.items()}
        self._weights = [self._cumulative(frames, early_only=False) for frames in self.tasks]
        self._early = [self._cumulative(frames, early_only=True) for frames in self.tasks]

    def batches(self, step: int, worker: int = 0, workers: int = 1) -> Iterator[Batch]:
        """A worker's share of the batch of one optimiser step, one part per task."""
        settings = self._settings
        rng = np.random.default_rng((settings.seed, step))
        weights = (
            self._early if step < settings.look_steps + settings.blind_steps else self._weights
        )
        for frames, cumulative in zip(self.tasks, weights, strict=True):
            count = self._count(frames.task.name)
            drawn = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side='right')
            yield frames.batch(drawn[worker::workers])

    def check_shares(self, workers: int) -> None:
        """ConfigError when a task's part of the batch leaves one of ``workers`` without any."""
        for frames in self.tasks:
            count = self._count(frames.task.name)
            if count < workers:
                raise ConfigError(
                    f'batch, lift_share: found {count} observations of {frames.task.name} in each '
                    f'batch of {self._settings.batch}, expected at least one for each of '
                    f'{workers} processes: raise the batch or change lift_share'
                )

    def statistics(self) -> dict[str, Tensor]:
        """Mean and spread of states and of actions before normalisation, for the model.

        Arm actions are differences to the observed position, gripper actions positions.
        """
        states = np.concatenate([frames.states for frames in self.tasks]).astype(np.float64)
        relative = np.ones(states.shape[1])
        relative[[6, 13]] = 0.0
        actions = np.concatenate(
            [
                frames.targets(np.arange(len(frames))) - relative * frames.states[:, None]
                for frames in self.tasks
            ]
        ).reshape(-1, states.shape[1])
        values = {
            'state_mean': states.mean(axis=0),
            'state_std': states.std(axis=0),
            'action_mean': actions.mean(axis=0),
            'action_std': actions.std(axis=0),
            'action_relative': relative,
        }
        for name, value in values.items():
            if not np.isfinite(value).all() or (name.endswith('std') and (value <= 0).any()):
                raise DatasetError(f'{name}: found {value}, expected finite, positive spreads')
        return {name: torch.from_numpy(value).float() for name, value in values.items()}

    def _count(self, task: str) -> int:
        lift = round(self._settings.batch * self._settings.lift_share)
        if len(self.tasks) == 1:
            return self._settings.batch
        return lift if task == 'lift_cube' else self._settings.batch - lift

    def _cumulative(self, frames: TaskFrames, early_only: bool) -> np.ndarray:
        """Cumulated weights of a task's frames."""
        early = frames.steps < self._settings.early_steps
        late = 0.0 if early_only else 1.0
        return np.cumsum(np.where(early, self._settings.early_weight, late))
