"""The reference library: episodes in memory, one file each on disk.

Memory: any thread may read; only the thread that runs the policy adds. Files are written whole
and renamed into place; a damaged one is an error that names it, and is never deleted.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.errors import LibraryError
from rmuscle_ros.memory.calibration import Pair
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.types import ModelInputs, Site

FORMAT = 2
SUFFIX = '.episode.safetensors'
TENSORS = ('images', 'state', 'key', 'levels', 'noise', 'actions', 'velocity')


class Library:
    """All reference episodes, by id, in the order they came.

    pairs: what calibration measured on them, by entry; in memory only.
    """

    def __init__(self) -> None:
        self._episodes: dict[str, Episode] = {}
        self.pairs: dict[str, Pair] = {}

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
        for other in self.of_task(episode.task)[:1]:
            found, expected = (list(e.entries[0].key.shape) for e in (episode, other))
            if found != expected:
                raise LibraryError(
                    f'episode {episode.id}: found keys {found}, expected {expected} as in '
                    f'{other.id} of the same task; move its file away'
                )
        self._episodes[episode.id] = episode

    def replace(self, episode: Episode) -> None:
        """Put ``episode`` in the place of the one with its id; LibraryError when there is none."""
        if episode.id not in self._episodes:
            raise LibraryError(f'episode {episode.id} is not in the library; add it')
        self._episodes[episode.id] = episode

    def save(self, directory: Path) -> int:
        """Write the episodes that ``directory`` does not hold yet; returns how many."""
        _make(directory)
        missing = [e for e in self if not (directory / f'{e.id}{SUFFIX}').exists()]
        for episode in missing:
            write_episode(episode, directory / f'{episode.id}{SUFFIX}')
        return len(missing)

    @staticmethod
    def check_writable(directory: Path) -> None:
        """Raise LibraryError if no episode could be written: before one is recorded."""
        _make(directory)
        try:
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise _not_writable(directory, error) from error

    @classmethod
    def load(cls, directory: Path) -> Library:
        """Read every episode of ``directory``; one that does not exist yet is an empty library."""
        library = cls()
        if directory.exists() and not directory.is_dir():
            raise LibraryError(f'{directory}: found a file, expected a directory of *{SUFFIX}')
        for path in sorted(directory.glob(f'*{SUFFIX}')):
            library.add(read_episode(path))
        return library


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(directory, error) from error


def _not_writable(directory: Path, error: OSError) -> LibraryError:
    return LibraryError(
        f'{directory}: cannot be written ({error.strerror}), episodes stay in memory only; make '
        'it writable or change library.directory'
    )


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
        'velocity': np.stack([entry.velocity for entry in entries]),
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
        'anchors': masks.anchors,
        'steps': masks.steps,
        'score': masks.score,
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
                'the episode again and move this file away'
            )
        if header['digest'] != _digest(tensors):
            raise LibraryError(
                f'{path}: contents do not match their digest; restore the file or move it away'
            )
        _check(header, tensors)
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
                tuple(header['anchors']),
                header['steps'],
                header['score'],
            ),
            noise=noise,
            actions=actions,
            velocity=velocity,
        )
        for position, (images, state, key, levels, noise, actions, velocity) in enumerate(
            zip(*(tensors[name] for name in TENSORS), strict=True)
        )
    )
    return Episode(header['id'], task, header['success'], entries)


def _check(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """ValueError for contents that no call records, whatever their digest."""
    images = tensors['images']
    views = len(header['cameras'])
    if images.dtype != np.uint8 or images.ndim != 5 or images.shape[1::3] != (views, 3):
        raise ValueError(
            f'found images {images.dtype} {list(images.shape)}, expected uint8 [N, {views}, S, S, '
            '3]'
        )
    for key in ('state', 'key', 'noise', 'actions', 'velocity'):
        if not np.isfinite(tensors[key]).all():
            raise ValueError(f'found values in {key} that are not finite')


def _digest(tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for key in sorted(tensors):
        array = np.ascontiguousarray(tensors[key])
        digest.update(f'{key}{array.dtype}{array.shape}'.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
