"""``rmuscle train export``: the checkpoint of a run in fp16, measured, with its model card.

Writes config.json, model.safetensors, evaluation.json and MODEL_CARD.md. What is measured is what
was written: both tasks on scenes that no demonstration shows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.train.export import export
from rmuscle_ros.train.generate import FIRST_SEED

EXAMPLES = """examples:
  rmuscle train export out/run out/aloha_transfer_cube
  rmuscle train export out/run out/unmeasured --episodes 0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``rmuscle train export``."""
    parser.add_argument('run_directory', type=Path, metavar='RUN', help='of `rmuscle train run`')
    parser.add_argument('out', type=Path, metavar='DIR', help='the checkpoint directory')
    parser.add_argument(
        '--episodes', type=int, default=50, metavar='N', help='of each task for the card (50)'
    )
    parser.add_argument('--seed', type=int, default=0, metavar='N', help='first scene (0)')


def run(args: argparse.Namespace) -> int:
    """Export, measure and print the card."""
    if args.episodes < 0 or args.seed < 0 or args.seed + args.episodes > FIRST_SEED:
        raise ConfigError(
            f'found --seed {args.seed} --episodes {args.episodes}, expected scenes from 0 to '
            f'{FIRST_SEED - 1}, below those of the demonstrations'
        )
    print(export(args.run_directory, args.out, range(args.seed, args.seed + args.episodes)))
    return 0
