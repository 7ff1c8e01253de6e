"""Demonstrations on disk: ``DIR/dataset.json`` and one ``DIR/TASK/SEED.npz`` per episode."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmuscle_ros.errors import DatasetError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.tasks import TASKS, find_task
from rmuscle_ros.train.demonstrations import Demonstration

FORMAT = 1
SETTINGS_FILE = 'dataset.json'
ARRAYS = ('images', 'states', 'cubes', 'steps', 'plan')


@dataclass(frozen=True)
class DatasetSettings:
    """What every episode of a dataset has in common."""

    image_size: int = 96
    format: int = FORMAT
    cameras: tuple[str, ...] = aloha.CAMERAS
    joint_names: tuple[str, ...] = aloha.JOINT_NAMES


def open_dataset(directory: Path, settings: DatasetSettings) -> None:
    """Create ``directory`` for these settings, or check that it was created for them.

    Raises DatasetError when it holds demonstrations of other settings or cannot be written.
    """
    path = directory / SETTINGS_FILE
    if path.exists():
        found = read_settings(directory)
        if found != settings:
            raise DatasetError(
                f'{path}: found {asdict(found)}, expected {asdict(settings)}; use another '
                'directory, or the same settings to go on with this one'
            )
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix('.partial')
        partial.write_text(json.dumps(asdict(settings), indent=2) + '\n')
        partial.replace(path)
    except OSError as error:
        raise DatasetError(f'{directory}: cannot be written ({error})') from error


def read_settings(directory: Path) -> DatasetSettings:
    """The settings of an existing dataset, or a DatasetError."""
    path = directory / SETTINGS_FILE
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return DatasetSettings(**{**values, **lists})
    except FileNotFoundError as error:
        raise DatasetError(
            f'{path}: not found; make a dataset first: rmuscle train data {directory}'
        ) from error
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(f'{path}: not the settings of a dataset ({error})') from error


def episode_path(directory: Path, task: str, seed: int) -> Path:
    return directory / task / f'{seed}.npz'


def write_demonstration(directory: Path, demonstration: Demonstration) -> Path:
    """Write one episode: whole or not at all. Raises DatasetError, for a full disk say."""
    path = episode_path(directory, demonstration.task, demonstration.seed)
    partial = path.with_suffix('.partial')
    arrays = {name: getattr(demonstration, name) for name in ARRAYS}
    try:
        path.parent.mkdir(exist_ok=True)
        with partial.open('wb') as file:
            np.savez(file, attempt=demonstration.attempt, **arrays)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DatasetError(
            f'{path}: cannot be written ({error}); make room and run the same command again, it '
            'goes on where it stopped'
        ) from error
    return path


def read_demonstration(path: Path, settings: DatasetSettings) -> Demonstration:
    """One episode, checked against the dataset's settings. Raises DatasetError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ARRAYS}
            attempt = int(file['attempt'])
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f'{path}: not a complete demonstration ({error}); delete it and run `rmuscle train '
            'data` again'
        ) from error
    task = find_task(path.parent.name)
    _check_shapes(path, arrays, settings)
    return Demonstration(task=task.name, seed=int(path.stem), attempt=attempt, **arrays)


def _check_shapes(path: Path, arrays: Mapping[str, np.ndarray], settings: DatasetSettings) -> None:
    frames, joints = len(arrays['steps']), len(settings.joint_names)
    size = settings.image_size
    expected = {
        'images': (frames, len(settings.cameras), size, size, 3),
        'states': (frames, joints),
        'cubes': (frames, 3),
        'plan': (len(arrays['plan']), joints),
    }
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise DatasetError(
                f'{path}: found {name} {arrays[name].shape}, expected {shape}; it is not of this '
                'dataset'
            )


def episode_paths(directory: Path) -> list[Path]:
    """Every complete episode, in the order of task and seed; DatasetError when there is none."""
    paths = [
        path
        for task in TASKS
        for path in sorted((directory / task).glob('*.npz'), key=lambda path: int(path.stem))
    ]
    if not paths:
        raise DatasetError(
            f'{directory}: found no demonstrations; make some first: rmuscle train data '
            f'{directory}'
        )
    return paths
