"""Model families by the ``type`` of their config.json, imported lazily."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import CheckpointError
from rmuscle_ros.models.base import VlaModel
from rmuscle_ros.models.processing import REVISION
from rmuscle_ros.models.weights import fingerprint, load_weights, read_config

ASSETS = Path(__file__).parents[1] / 'assets'
TINY = 'rmuscle_tiny'


@dataclass(frozen=True)
class LoadedModel:
    """A model with its identity. ``trained`` is False for seeded initial weights."""

    model: VlaModel
    name: str
    fingerprint: str
    trained: bool


def load_model(checkpoint: str, seed: int) -> LoadedModel:
    """Load the checkpoint directory, or build the untrained tiny model when it is empty."""
    if not checkpoint:
        from rmuscle_ros.models.tiny_init import untrained

        tiny = untrained(seed)
        config = {'type': TINY, 'config': dataclasses.asdict(tiny.config)}
        name = f'{TINY} (untrained, seed {seed})'
        return LoadedModel(tiny, name, _identity(tiny, config), trained=False)
    directory = checkpoint_directory(checkpoint)
    config = read_config(directory)
    if config['type'] not in FAMILIES:
        raise CheckpointError(
            f'{directory}: found type {config["type"]!r}, known types: {", ".join(FAMILIES)}'
        )
    model = FAMILIES[config['type']](config, directory)
    load_weights(model, directory)
    model.eval().requires_grad_(False)
    name = f'{config["type"]} ({directory.name})'
    return LoadedModel(model, name, _identity(model, config), trained=True)


def checkpoint_directory(checkpoint: str) -> Path:
    """The directory ``checkpoint``, or the checkpoint of that name that the package ships."""
    directory, shipped = Path(checkpoint).expanduser(), ASSETS / checkpoint
    is_name = checkpoint == Path(checkpoint).name
    return shipped if is_name and shipped.is_dir() and not directory.exists() else directory


def _identity(model: VlaModel, config: dict[str, Any]) -> str:
    """Fingerprint of weights, configuration and input processing."""
    return fingerprint(model, config | {'processing': REVISION})


def _tiny(config: dict[str, Any], directory: Path) -> VlaModel:
    from rmuscle_ros.models.tiny import TinyConfig, TinyVla

    sizes = config.get('config')
    known = {item.name for item in dataclasses.fields(TinyConfig)}
    if not isinstance(sizes, dict) or set(sizes) != known:
        raise CheckpointError(
            f'{directory}: found "config" {sizes!r}, expected a mapping with exactly the keys '
            f'{", ".join(sorted(known))}'
        )
    defaults = dataclasses.asdict(TinyConfig())
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in sizes.items()
    }
    wrong = [f'{k} {v!r}' for k, v in values.items() if type(v) is not type(defaults[k])]
    if wrong:
        raise CheckpointError(
            f'{directory}: found {", ".join(wrong)} in "config", expected values like '
            f'{", ".join(repr(defaults[text.split()[0]]) for text in wrong)}'
        )
    return TinyVla(TinyConfig(**values))


FAMILIES = {TINY: _tiny}
