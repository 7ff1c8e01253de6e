"""A run's checkpoint: everything a run needs to go on, bit for bit, in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rmuscle_ros.errors import CheckpointError
from rmuscle_ros.models.tiny import TinyVla
from rmuscle_ros.models.weights import compare_keys
from rmuscle_ros.train.objective import CubeHead

FILE = 'state.safetensors'
MOMENTS = ('exp_avg', 'exp_avg_sq', 'step')


@dataclass
class TrainState:
    """What changes while training. ``model`` holds the trained, ``ema`` the averaged weights.

    Random numbers and the order of the data are functions of the settings' seed and of ``step``.
    """

    model: TinyVla
    ema: TinyVla
    head: CubeHead
    ema_head: CubeHead
    optimiser: torch.optim.AdamW
    step: int = 0

    def parts(self) -> dict[str, nn.Module]:
        return {
            'model': self.model,
            'ema': self.ema,
            'head': self.head,
            'ema_head': self.ema_head,
        }

    def parameters(self) -> dict[str, nn.Parameter]:
        """The optimiser's parameters by name, in its order."""
        return {
            f'{part}.{name}': parameter
            for part, module in (('model', self.model), ('head', self.head))
            for name, parameter in module.named_parameters()
        }

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name."""
        found = {
            f'{part}.{name}': tensor
            for part, module in self.parts().items()
            for name, tensor in module.state_dict().items()
        }
        for name, parameter in self.parameters().items():
            for moment, tensor in self.optimiser.state.get(parameter, {}).items():
                found[f'optimiser.{moment}.{name}'] = tensor
        return found


def save_state(state: TrainState, settings: dict[str, Any], directory: Path) -> None:
    """Write the checkpoint; the previous one stays intact when that fails (CheckpointError)."""
    path = directory / FILE
    partial = directory / f'.{FILE}.partial'
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors().items()
    }
    metadata = {
        'step': str(state.step),
        'settings': json.dumps(settings, sort_keys=True),
        'digest': _digest(tensors),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        save_file(tensors, partial, metadata)
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        kept = f'; {path.name} of an earlier step is intact' if path.exists() else ''
        raise CheckpointError(
            f'{directory}: cannot write the checkpoint of step {state.step} ({error}){kept}. Make '
            'room and run the same command again'
        ) from error


def load_state(state: TrainState, settings: dict[str, Any], directory: Path) -> bool:
    """Go on from the checkpoint in ``directory``; False when there is none.

    Raises CheckpointError when it is damaged or belongs to a run of other settings; ``state`` is
    unchanged then.
    """
    path = directory / FILE
    if not path.exists():
        return False
    metadata, tensors = _read(path)
    found = json.loads(metadata['settings'])
    if found != settings:
        raise CheckpointError(f'{path}: {_difference(found, settings)}')
    expected = {name: list(tensor.shape) for name, tensor in _expected(state, tensors).items()}
    compare_keys(path, expected, {name: list(tensor.shape) for name, tensor in tensors.items()})
    with torch.no_grad():
        for part, module in state.parts().items():
            for name, tensor in module.state_dict().items():
                tensor.copy_(tensors[f'{part}.{name}'])
        for name, parameter in state.parameters().items():
            moments = {
                moment: tensors[f'optimiser.{moment}.{name}']
                for moment in MOMENTS
                if f'optimiser.{moment}.{name}' in tensors
            }
            if moments:
                state.optimiser.state[parameter] = {
                    moment: tensor.to(parameter.device) for moment, tensor in moments.items()
                }
    state.step = int(metadata['step'])
    return True


def read_averaged(directory: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """``settings`` and ``step`` of a run, and its averaged weights. Raises CheckpointError."""
    path = directory / FILE
    if not path.exists():
        raise CheckpointError(
            f'{path}: not found; train first: rmuscle train run DATA {directory}'
        )
    metadata, tensors = _read(path)
    weights = {
        name.removeprefix('ema.'): tensor
        for name, tensor in tensors.items()
        if name.startswith('ema.')
    }
    return {'step': int(metadata['step']), 'settings': json.loads(metadata['settings'])}, weights


def _expected(state: TrainState, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """The keys a checkpoint must have; a parameter without a gradient so far has no moments."""
    expected = {name: t for name, t in state.tensors().items() if not name.startswith('optimiser')}
    for name, parameter in state.parameters().items():
        if any(f'optimiser.{moment}.{name}' in found for moment in MOMENTS):
            shapes = (parameter, parameter, torch.zeros(()))
            for moment, shape in zip(MOMENTS, shapes, strict=True):
                expected[f'optimiser.{moment}.{name}'] = shape
    return expected


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework='pt') as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f'{path}: not a complete checkpoint ({error}); delete it to begin again, or put a '
            'copy of it there'
        ) from error
    missing = [name for name in ('step', 'settings', 'digest') if name not in metadata]
    if missing:
        raise CheckpointError(f'{path}: found no {", ".join(missing)}; not written by a run')
    if _digest(tensors) != metadata['digest']:
        raise CheckpointError(
            f'{path}: damaged, its tensors do not have the digest written with them; delete it to '
            'begin again, or put a copy of it there'
        )
    return metadata, tensors


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def _difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    keys = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    listing = '; '.join(
        f'{key}: found {found.get(key)!r}, expected {expected.get(key)!r}' for key in sorted(keys)
    )
    return (
        f'belongs to another run ({listing}); go on with its own settings, or choose another '
        'directory'
    )
