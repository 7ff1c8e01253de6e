"""The model card of an exported checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmuscle_ros.config import fields_of
from rmuscle_ros.models.weights import WEIGHTS_FILE
from rmuscle_ros.rollout import EXECUTION_HORIZON, SUCCESS_STEPS, TIME_FACTOR
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.statistics import wilson
from rmuscle_ros.train.demonstrations import DISTURBED_SHARE
from rmuscle_ros.train.evaluation import TaskResult
from rmuscle_ros.train.generate import FIRST_SEED
from rmuscle_ros.train.settings import TrainSettings

LIMITS = """\
- One scene: gym-aloha's table with one red cube, its cameras as in `rmuscle_ros/sim/cameras.py`
  and the station's lighting. It has never seen another object, place, camera or a real robot.
- Two instructions, told apart by their bytes; other texts are not understood.
- Demonstrations hold recoveries from small deviations, none from a dropped or missed cube.
- 50 Hz targets, a new chunk every 25 control steps: the success above is for this rhythm. Planning
  anew much more often lowers it.
- Simulation only; not to be run on hardware."""


def model_card(
    directory: Path,
    metadata: dict[str, Any],
    results: Sequence[TaskResult],
    checks: Sequence[dict[str, float]],
    hours: float | None = None,
) -> str:
    """Markdown. metadata: ``settings`` and ``step`` of the run's checkpoint.

    hours: how long its optimiser steps took; None when that is not known.
    """
    settings = metadata['settings']
    size_mb = (directory / WEIGHTS_FILE).stat().st_size / 1e6
    episodes = ', '.join(f'{count} of {task}' for task, count in settings['episodes'].items())
    looks = [row['look_r'] for row in checks if 'look_r' in row]
    look = f'{looks[-1]:.3f}' if looks else 'not measured'
    parts = [
        f'# {directory.name}',
        'A small vision-language-action policy (`rmuscle_tiny`, the structure of π0.5) for the '
        'simulated ALOHA station, trained from scripted demonstrations. '
        f'{size_mb:.1f} MB, fp16 on disk; float32 on a CPU.',
        '## What it does',
        *(f'- `{task.name}`: "{task.instruction}"' for task in TASKS.values()),
        '\n## Success',
        _table(results),
        '\n## Training',
        f'- Data: {episodes}; scenes from seed {FIRST_SEED} on, {DISTURBED_SHARE:.0%} of the '
        'episodes disturbed, all labels from the undisturbed plan.',
        f'- {metadata["step"]} optimiser steps of {settings["batch"]} observations with '
        f'{settings["draws"]} flow draws each, seed {settings["seed"]}; averaged weights.',
        *([] if hours is None else [f'- Time of all steps: {hours:.1f} h.']),
        f'- Look-or-guess correlation on scenes kept out of training: {look}.',
        '- Commands:\n\n```sh',
        *_commands(directory, settings),
        '```',
        '\n## Limits',
        LIMITS,
    ]
    return '\n'.join(parts) + '\n'


def _commands(directory: Path, settings: dict[str, Any]) -> list[str]:
    """The command lines that make this checkpoint again."""
    counts = {'transfer': 'transfer_cube', 'lift': 'lift_cube'}
    data = [f'--{option} {settings["episodes"].get(task, 0)}' for option, task in counts.items()]
    options = [
        f'--{key.replace("_", "-")} {settings[key]:g}'
        for key, _, default in fields_of(TrainSettings())
        if settings.get(key, default) != default
    ]
    workers = f'--processes {settings["workers"]}'
    return [
        ' '.join(['rmuscle train data out/data', *data]),
        ' '.join(['rmuscle train run out/data out/run', *options, workers]),
        f'rmuscle train export out/run out/{directory.name}',
    ]


def _table(results: Sequence[TaskResult]) -> str:
    if not results:
        return 'Not measured.'
    lines = [
        f'Scenes of gym-aloha, its full cube range, none of them trained on; its own reward, held '
        f"for {SUCCESS_STEPS} control steps within {TIME_FACTOR:g} times the expert's time; dense "
        f'calls, a new chunk every {EXECUTION_HORIZON} control steps, no latency.',
        '',
        '| task | seeds | success | 95 % interval (Wilson) | cube lifted | failed seeds |',
        '|---|---|---|---|---|---|',
    ]
    for result in results:
        low, high = wilson(result.successes, result.episodes)
        seeds = [rollout.seed for rollout in result.rollouts]
        failed = ', '.join(map(str, result.failed_seeds)) or 'none'
        lines.append(
            f'| {result.task} | {min(seeds)}–{max(seeds)} | {result.successes} of '
            f'{result.episodes} | {low:.1%} to {high:.1%} | {result.lifts} | {failed} |'
        )
    return '\n'.join(lines)
