"""A miniature dataset and run: no simulator, every size odd."""

from __future__ import annotations

import dataclasses

import numpy as np
import tiny_fixtures

from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.train.dataset import DatasetSettings, open_dataset, write_demonstration
from rmuscle_ros.train.demonstrations import Demonstration
from rmuscle_ros.train.settings import TrainSettings

MINI = dataclasses.replace(tiny_fixtures.MINI, image_size=12, patch_size=4)
SETTINGS = TrainSettings(
    steps=20,
    look_steps=3,
    blind_steps=3,
    batch=10,
    warm_up_steps=4,
    validation=2,
    look_every=10,
    check_every=0,
    save_every=5,
)
DATA = DatasetSettings(image_size=MINI.image_size)


def demonstration(task='transfer_cube', seed=1, frames=6) -> Demonstration:
    """Random pictures and a plan that depends on the seed."""
    rng = np.random.default_rng(seed)
    steps = TASKS[task].steps
    return Demonstration(
        task=task,
        seed=seed,
        attempt=0,
        images=rng.integers(0, 256, (frames, 3, DATA.image_size, DATA.image_size, 3), np.uint8),
        states=rng.normal(size=(frames, 14)).astype(np.float32),
        cubes=rng.uniform((0.0, 0.4, 0.0), (0.2, 0.6, 0.1), (frames, 3)).astype(np.float32),
        steps=np.linspace(0, steps, frames).astype(np.int32),
        plan=rng.normal(size=(steps, 14)).cumsum(axis=0).astype(np.float32) / 10,
    )


def write_dataset(directory, transfer=5, lift=2):
    """A dataset of random demonstrations."""
    open_dataset(directory, DATA)
    for seed in range(transfer):
        write_demonstration(directory, demonstration(seed=seed))
    for seed in range(100, 100 + lift):
        write_demonstration(directory, demonstration('lift_cube', seed, frames=5))
    return directory
