"""The reference library: episodes in memory, one file each on disk.

Memory: any thread may read; only the thread that runs the policy adds. Files are written whole
and renamed into place; a damaged one is an error that names it, and is never deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.errors import LibraryError
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.types import ModelInputs, Site

FORMAT = 1
SUFFIX = '.episode.safetensors'


class Library:
    """All reference episodes, by id, in the order they came."""

    def __init__(self) -> None:
        self._episodes: dict[str, Episode] = {}

    def __iter__(self) -> Iterator[Episode]:
        return iter(tuple(self._episodes.values()))

    def __len__(self) -> int:
        return len(self._episodes)

    @property
    def entries(self) -> int:
        return sum(len(episode.entries) for episode in self)

    def of_task(self, task: TaskKey) -> list[Episode]:
        """Episodes a call of ``task`` may use: same instruction, model and cameras."""
        return [episode for episode in self if episode.task == task]

    def add(self, episode: Episode) -> None:
        if episode.id in self._episodes:
            raise LibraryError(f'episode {episode.id} is in the library already')
        if not episode.entries:
            raise LibraryError(f'episode {episode.id} has no entries; record at least one call')
        self._episodes[episode.id] = episode

    def save(self, directory: Path) -> int:
        """Write the episodes that ``directory`` does not hold yet; returns how many."""
        directory.mkdir(parents=True, exist_ok=True)
        missing = [e for e in self if not (directory / f'{e.id}{SUFFIX}').exists()]
        for episode in missing:
            write_episode(episode, directory / f'{episode.id}{SUFFIX}')
        return len(missing)

    @classmethod
    def load(cls, directory: Path) -> Library:
        """Read every episode of ``directory``; one that does not exist yet is an empty library."""
        library = cls()
        if directory.exists() and not directory.is_dir():
            raise LibraryError(f'{directory}: found a file, expected a directory of *{SUFFIX}')
        for path in sorted(directory.glob(f'*{SUFFIX}')):
            library.add(read_episode(path))
        return library


def write_episode(episode: Episode, path: Path) -> None:
    """One safetensors file: stacked tensors, the rest as JSON metadata with a digest."""
    entries = episode.entries
    masks = entries[0].masks
    tensors = {
        'images': np.stack([entry.inputs.images for entry in entries]),
        'state': np.stack([entry.inputs.state for entry in entries]),
        'key': np.stack([entry.key for entry in entries]),
        'levels': np.stack([entry.masks.pack() for entry in entries]),
        'noise': np.stack([entry.noise for entry in entries]),
        'actions': np.stack([entry.actions for entry in entries]),
    }
    header = {
        'format': FORMAT,
        'id': episode.id,
        'success': episode.success,
        'instruction': episode.task.instruction,
        'fingerprint': episode.task.fingerprint,
        'cameras': episode.task.cameras,
        'neurons': masks.levels.shape[-1],
        'sites': masks.sites,
        'group_len': masks.group_len,
        'steps': masks.steps,
        'digest': _digest(tensors),
    }
    partial = path.with_name(f'.{path.name}.partial')
    try:
        save_file(tensors, partial, metadata={'rmuscle_episode': json.dumps(header)})
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise LibraryError(
            f'{path}: cannot write the episode ({error}); it stays in memory: free space or '
            'change library.directory'
        ) from error


def read_episode(path: Path) -> Episode:
    """The inverse of ``write_episode``; LibraryError when anything does not fit."""
    try:
        with safe_open(path, framework='np') as file:
            header = json.loads((file.metadata() or {})['rmuscle_episode'])
            keys = file.keys()
            tensors = {key: file.get_tensor(key) for key in keys}
        if header['format'] != FORMAT:
            raise LibraryError(
                f'{path}: found format {header["format"]}, this version reads {FORMAT}; record '
                'the episode again'
            )
        if header['digest'] != _digest(tensors):
            raise LibraryError(
                f'{path}: contents do not match their digest; restore the file or move it away'
            )
        return _episode(header, tensors)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise LibraryError(
            f'{path}: not a readable reference episode ({type(error).__name__}: {error}); '
            'restore the file or move it away'
        ) from error


def _episode(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Episode:
    cameras = tuple(header['cameras'])
    sites = tuple(Site(*site) for site in header['sites'])
    task = TaskKey(header['instruction'], header['fingerprint'], cameras)
    entries = tuple(
        Entry(
            episode_id=header['id'],
            position=position,
            inputs=ModelInputs(images, cameras, state, task.instruction),
            key=key,
            masks=NeuronMasks(
                NeuronMasks.unpack(levels, header['neurons']),
                sites,
                header['group_len'],
                header['steps'],
            ),
            noise=noise,
            actions=actions,
        )
        for position, (images, state, key, levels, noise, actions) in enumerate(
            zip(
                *(tensors[k] for k in ('images', 'state', 'key', 'levels', 'noise', 'actions')),
                strict=True,
            )
        )
    )
    return Episode(header['id'], task, header['success'], entries)


def _digest(tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for key in sorted(tensors):
        array = np.ascontiguousarray(tensors[key])
        digest.update(f'{key}{array.dtype}{array.shape}'.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
