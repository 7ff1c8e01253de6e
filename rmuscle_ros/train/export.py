"""The shipped checkpoint of a run: averaged weights in fp16, and a model card."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from rmuscle_ros.errors import CheckpointError
from rmuscle_ros.models.registry import TINY
from rmuscle_ros.models.tiny import TinyConfig, TinyVla
from rmuscle_ros.models.weights import save_checkpoint
from rmuscle_ros.train.card import model_card
from rmuscle_ros.train.evaluation import TaskResult, evaluate
from rmuscle_ros.train.journal import hours, read_checks
from rmuscle_ros.train.state import read_averaged

CARD_FILE, RESULT_FILE = 'MODEL_CARD.md', 'evaluation.json'


def export_weights(run: Path, directory: Path) -> dict[str, Any]:
    """Write config.json and model.safetensors of a run; its settings and step.

    Raises CheckpointError when the run has no usable checkpoint or the disk is full; an older
    export stays intact then.
    """
    metadata, weights = read_averaged(run)
    sizes: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in metadata['settings']['config'].items()
    }
    model = TinyVla(TinyConfig(**sizes))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing or unexpected:
        raise CheckpointError(
            f'{run}: missing {missing}, unexpected {unexpected}; expected the averaged weights '
            'and normalisation statistics of a run of this version'
        )
    config = {'type': TINY, 'config': asdict(model.config)}
    save_checkpoint(model, config, directory, torch.float16)
    return metadata


def export(run: Path, directory: Path, seeds: Sequence[int]) -> str:
    """Export a run, measure what was written, and write the model card; the card's text.

    seeds: scenes of the evaluation.
    """
    metadata = export_weights(run, directory)
    results = evaluate(str(directory), seeds) if seeds else []
    card = model_card(directory, metadata, results, read_checks(run), hours(run))
    try:
        (directory / RESULT_FILE).write_text(json.dumps(_as_json(results), indent=1) + '\n')
        (directory / CARD_FILE).write_text(card)
    except OSError as error:
        raise CheckpointError(f'{directory}: cannot write the model card ({error})') from error
    return card


def _as_json(results: Sequence[TaskResult]) -> dict[str, list[dict[str, Any]]]:
    return {result.task: [asdict(rollout) for rollout in result.rollouts] for result in results}
