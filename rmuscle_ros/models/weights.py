"""Strict checkpoint loading: every key accounted for, nothing guessed, no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from rmuscle_ros.errors import CheckpointError

CONFIG_FILE = 'config.json'
WEIGHTS_FILE = 'model.safetensors'


def read_config(directory: Path) -> dict[str, Any]:
    """The checkpoint's config.json."""
    path = directory / CONFIG_FILE
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(
            f'{path}: not found; a checkpoint is a directory with {CONFIG_FILE} and {WEIGHTS_FILE}'
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f'{path}: cannot be read as JSON ({error})') from error
    if not isinstance(config, dict) or not isinstance(config.get('type'), str):
        raise CheckpointError(f'{path}: found no "type"; expected a model family name there')
    return config


def load_weights(model: nn.Module, directory: Path) -> None:
    """Copy the checkpoint's tensors into ``model`` in the model's dtype.

    Missing, unexpected and misshapen keys are one CheckpointError that lists them all; the model
    is unchanged then.
    """
    path = directory / WEIGHTS_FILE
    target = model.state_dict()
    try:
        with safe_open(path, framework='pt') as file:
            keys = file.keys()
            found = {key: file.get_slice(key).get_shape() for key in keys}
            compare_keys(path, {key: list(value.shape) for key, value in target.items()}, found)
            with torch.no_grad():
                for key, tensor in target.items():
                    tensor.copy_(file.get_tensor(key))
    except FileNotFoundError as error:
        raise CheckpointError(f'{path}: not found; the weights belong beside {CONFIG_FILE}') from (
            error
        )
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f'{path}: not a complete safetensors file ({error}); copy it again. Pickle files '
            '(.bin, .pt) are not accepted: they can run code when opened'
        ) from error


def compare_keys(
    path: Path, expected: Mapping[str, list[int]], found: Mapping[str, list[int]]
) -> None:
    """Raise one error that lists every difference between two sets of keys and shapes."""
    problems = [f'missing {key} {expected[key]}' for key in expected if key not in found]
    problems += [f'unexpected {key} {found[key]}' for key in found if key not in expected]
    problems += [
        f'{key}: found shape {found[key]}, expected {shape}'
        for key, shape in expected.items()
        if key in found and found[key] != shape
    ]
    if problems:
        listing = '\n  '.join(problems)
        raise CheckpointError(
            f'{path}: {len(problems)} keys do not fit the model described by {CONFIG_FILE}:'
            f'\n  {listing}'
        )


def save_checkpoint(
    model: nn.Module,
    config: Mapping[str, Any],
    directory: Path,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write config.json and model.safetensors; an older checkpoint stays intact on failure."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    partial = {name: directory / f'.{name}.partial' for name in (WEIGHTS_FILE, CONFIG_FILE)}
    try:
        save_file(tensors, partial[WEIGHTS_FILE])
        # safetensors makes it readable to its owner only.
        partial[WEIGHTS_FILE].chmod(0o644)
        partial[CONFIG_FILE].write_text(json.dumps(config, indent=2) + '\n')
        for name, path in partial.items():
            path.replace(directory / name)
    except (OSError, SafetensorError) as error:
        for path in partial.values():
            path.unlink(missing_ok=True)
        raise CheckpointError(f'{directory}: cannot write the checkpoint ({error})') from error


def fingerprint(model: nn.Module, config: Mapping[str, Any]) -> str:
    """Hash of weights and configuration: references of another model are never used."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
