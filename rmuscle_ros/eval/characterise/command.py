"""The paper's observations measured on this policy: what repeats, and what caches can gain."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmuscle_ros.eval import files
from rmuscle_ros.sim.tasks import TASKS

EXAMPLES = """examples:
  rmuscle eval characterise --html out/characterise.html
  rmuscle eval characterise --task lift_cube --json out/characterise.json
  rmuscle eval characterise --checkpoint '' --admit all --references 2 --tests 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--task', default='transfer_cube', choices=list(TASKS))
    parser.add_argument(
        '--checkpoint',
        default='aloha_transfer_cube',
        help="directory, or a shipped one's name (aloha_transfer_cube); empty: untrained",
    )
    parser.add_argument('--references', type=int, default=8, help='reference episodes (8)')
    parser.add_argument(
        '--tests', type=int, default=20, help='test episodes, of this task and of the other (20)'
    )
    parser.add_argument(
        '--seed', type=int, default=700000, help='first test scene, and seed of noise (700000)'
    )
    parser.add_argument(
        '--admit',
        default='success',
        choices=('success', 'all'),
        help='which episodes become references (success)',
    )
    parser.add_argument('--json', type=Path, metavar='FILE', help='write all curves here')
    parser.add_argument('--html', type=Path, metavar='FILE', help='write a page with the plots')


def run(args: argparse.Namespace) -> int:
    files.check_outputs(json=args.json, html=args.html)
    # Imports PyTorch and MuJoCo, which --help does not need.
    import torch

    from rmuscle_ros.config import EngineConfig
    from rmuscle_ros.engine.device import resolve_threads
    from rmuscle_ros.eval.characterise.study import Settings, study
    from rmuscle_ros.models.registry import load_model

    settings = Settings(args.task, args.references, args.tests, args.seed, args.admit)
    torch.set_num_threads(resolve_threads(EngineConfig().threads))
    result = study(load_model(args.checkpoint, 0), settings)
    files.publish(result, args.json, args.html, _page, table)
    return 0


def table(result: Mapping[str, Any]) -> str:
    """The headline numbers for a terminal."""
    from rmuscle_ros.eval.characterise import readings

    groups = readings.summary_rows(result)
    width = 2 + max(len(row[0]) for rows in groups.values() for row in rows) + 2
    lines = [readings.what_ran(result), '', f'{"":{width}}{"here":>8}{"paper (π0.5)":>16}']
    for title, rows in groups.items():
        lines.append(title)
        lines += [f'  {label:{width - 2}}{here:>8}{paper:>16}' for label, here, paper in rows]
    return '\n'.join(lines)


def _page(result: dict[str, Any]) -> str:
    # Imports Matplotlib.
    from rmuscle_ros.eval.characterise.page import page

    return page(result)
