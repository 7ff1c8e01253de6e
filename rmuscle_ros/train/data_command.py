"""``rmuscle train data``: demonstrations of the scripted expert, one file each.

The simulator runs on every processor core. Run the same command again after an interruption: it
goes on where it stopped, and the files do not depend on it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.train.dataset import DatasetSettings
from rmuscle_ros.train.generate import FIRST_SEED, generate, plan_jobs

EXAMPLES = """examples:
  rmuscle train data out/data                              under 10 minutes on two cores, 3 GB
  rmuscle train data out/small --transfer 40 --lift 0
  rmuscle train data out/data --transfer 1200              300 more in the same directory
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``rmuscle train data``."""
    cores = os.cpu_count() or 1
    parser.add_argument('data', type=Path, metavar='DIR', help='where the demonstrations are kept')
    parser.add_argument(
        '--transfer', type=int, default=900, metavar='N', help='episodes of transfer_cube (900)'
    )
    parser.add_argument(
        '--lift', type=int, default=240, metavar='N', help='episodes of lift_cube (240)'
    )
    parser.add_argument(
        '--image-size', type=int, default=96, metavar='N', help='of the pictures, in pixels (96)'
    )
    parser.add_argument(
        '--first-seed',
        type=int,
        default=FIRST_SEED,
        metavar='N',
        help=f'of the scenes ({FIRST_SEED}); evaluations use smaller ones',
    )
    parser.add_argument(
        '--processes', type=int, default=cores, metavar='N', help=f'one per core ({cores})'
    )


def run(args: argparse.Namespace) -> int:
    """Make the episodes that are missing."""
    counts = {'transfer_cube': args.transfer, 'lift_cube': args.lift}
    if min(counts.values()) < 0 or max(counts.values()) == 0 or args.processes < 1:
        raise ConfigError(
            f'found --transfer {args.transfer} --lift {args.lift} --processes {args.processes}, '
            'expected some episodes and at least one process'
        )
    jobs = plan_jobs({task: count for task, count in counts.items() if count}, args.first_seed)
    made = generate(args.data, jobs, DatasetSettings(args.image_size), args.processes)
    print(f'{args.data}: {len(jobs)} episodes, {made} of them new')
    return 0
