"""``rmuscle train run``: train a policy on demonstrations, or go on with it.

A run lives in its directory: checkpoint, losses.csv, checks.csv, losses.png. Run the same command
again after an interruption: it goes on from its last checkpoint, bit for bit on a CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rmuscle_ros.config import fields_of, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.train.run import Run
from rmuscle_ros.train.settings import TrainSettings

EXAMPLES = """examples:
  rmuscle train run out/data out/run
  rmuscle train run out/data out/run --steps 6000       a longer run: bends the learning rate
  rmuscle train run out/data out/try --steps 600 --look-every 50 --check-every 0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``rmuscle train run``."""
    parser.add_argument('data', type=Path, metavar='DATA', help='made by `rmuscle train data`')
    parser.add_argument('directory', type=Path, metavar='RUN', help='where the run lives')
    for key, item, default in fields_of(TrainSettings()):
        parser.add_argument(
            f'--{key.replace("_", "-")}',
            type=type(default),
            default=default,
            metavar='N' if isinstance(default, int) else 'X',
            help=f'{item.metadata["description"]} ({default:g})',
        )
    parser.add_argument(
        '--device',
        choices=('auto', 'cpu', 'cuda'),
        default='auto',
        help='auto takes CUDA when present (auto)',
    )
    cores = os.cpu_count() or 1
    parser.add_argument(
        '--processes',
        type=int,
        default=cores,
        metavar='N',
        help=f'on a CPU, one per core ({cores})',
    )


def run(args: argparse.Namespace) -> int:
    """Train until all steps are done."""
    if args.processes < 1:
        raise ConfigError(f'--processes: found {args.processes}, expected at least 1')
    values = {key: getattr(args, key) for key, _, _ in fields_of(TrainSettings())}
    settings = with_values(TrainSettings(), values)
    training = Run(args.data, args.directory, settings, device=args.device, workers=args.processes)
    if training.state.step:
        print(f'{args.directory}: goes on at step {training.state.step}', file=sys.stderr)
    training.train()
    print(f'{args.directory}: {training.state.step} steps done; see losses.png and checks.csv')
    return 0
