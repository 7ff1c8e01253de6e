"""Closed-loop success and latency on the simulated station, in this process, paired by seed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.sim.tasks import TASKS

MODES = ('dense', 'rmuscle')
EXAMPLES = """examples:
  rmuscle eval --task transfer_cube --episodes 50 --modes dense --json out/eval.json
  rmuscle eval --task lift_cube --episodes 20 --modes dense,rmuscle
other evaluations:
  rmuscle eval separation --help
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--task', default='transfer_cube', choices=list(TASKS))
    parser.add_argument('--episodes', type=int, default=50, help='scenes per mode (50)')
    parser.add_argument(
        '--seed', type=int, default=0, help='first scene (0); training shows none below 1000000'
    )
    parser.add_argument(
        '--modes', default='dense,rmuscle', help=f'comma-separated, of {", ".join(MODES)}'
    )
    parser.add_argument(
        '--checkpoint',
        default='aloha_transfer_cube',
        help="directory, or a shipped one's name (aloha_transfer_cube); empty: untrained",
    )
    parser.add_argument(
        '--references', type=int, default=5, help='episodes recorded for the caches (5)'
    )
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the result here too')


def run(args: argparse.Namespace) -> int:
    modes = args.modes.split(',')
    if set(modes) - set(MODES) or args.episodes < 1:
        raise ConfigError(
            f'found modes {args.modes} and {args.episodes} episodes, expected modes of '
            f'{", ".join(MODES)} and at least one episode'
        )
    # Imports PyTorch and MuJoCo, which --help does not need.
    from rmuscle_ros.eval import closed_loop

    seeds = range(args.seed, args.seed + args.episodes)
    result = closed_loop.compare(args.checkpoint, args.task, seeds, modes, args.references)
    print(closed_loop.table(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1, allow_nan=False) + '\n')
    return 0
