"""References for the modes that read some: recorded through the nodes, kept in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rmuscle_ros.config import PolicyConfig, fields_of, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.modes import DENSE_VALUES, EvalMode
from rmuscle_ros.eval.workbench import MOST_REFERENCE_TRIES, REFERENCE_SEED
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.planning import why_action_off
from rmuscle_ros.policy import Policy
from rmuscle_ros.ros.evaluation.lab import Lab
from rmuscle_ros.ros.evaluation.progress import Progress


def record(lab: Lab, count: int, directory: Path, progress: Progress) -> list[int]:
    """Record ``count`` successful dense episodes into ``directory``; their scenes.

    ConfigError when too few of the tries succeed.
    """
    values = {**DENSE_VALUES, 'library.record': True, 'library.directory': str(directory)}
    node = lab.start('references', values)
    seeds: list[int] = []
    tries = MOST_REFERENCE_TRIES * count
    with progress.bar(count) as bar:
        bar.set_description('references')
        for seed in range(REFERENCE_SEED, REFERENCE_SEED + tries):
            if node.run(seed, progress.episode).admitted:
                seeds.append(seed)
                bar.update()
            if len(seeds) == count:
                break
    node.stop()
    if len(seeds) < count:
        raise ConfigError(
            f'references: found {len(seeds)} successes in {tries} episodes, expected {count}: '
            'this policy does not do the task; give a trained --checkpoint or --modes dense'
        )
    return seeds


def fitted(directory: Path, mode: EvalMode, shared: Mapping[str, Any], target: Path) -> Path:
    """``directory``, or a copy of its library in ``target`` whose masks fit the mode's anchors.

    shared: parameters of all policy nodes.
    """
    keys = {key for key, _, _ in fields_of(PolicyConfig())}
    known = {key: value for key, value in shared.items() if key in keys}
    config = with_values(PolicyConfig(), known | dict(mode.values))
    library = Library.load(directory)
    steps = config.engine.denoise_steps
    if not any(why_action_off(episode.entries[0], config.cache, steps) for episode in library):
        return directory
    loaded = load_model(config.model.checkpoint, config.model.seed)
    with closing(Policy(config, loaded, library)) as policy:
        policy.refresh_library()
    library.save(target)
    return target
