"""The paper's observations measured on this policy: what repeats, and what caches can gain."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import ConfigError
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
    for path in filter(None, (args.json, args.html)):
        _check_writable(path)
    # Imports PyTorch and MuJoCo, which --help does not need.
    import torch

    from rmuscle_ros.config import EngineConfig
    from rmuscle_ros.engine.device import resolve_threads
    from rmuscle_ros.eval.characterise.study import Settings, study
    from rmuscle_ros.models.registry import load_model

    settings = Settings(args.task, args.references, args.tests, args.seed, args.admit)
    torch.set_num_threads(resolve_threads(EngineConfig().threads))
    result = study(load_model(args.checkpoint, 0), settings)
    print(table(result))
    if args.json:
        _write(args.json, json.dumps(result, indent=1, allow_nan=False) + '\n')
    if args.html:
        from rmuscle_ros.eval.characterise.page import page

        _write(args.html, page(result))
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


def _check_writable(path: Path) -> None:
    """Before the run, not after it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ConfigError(
            f'{path}: cannot be written ({error.strerror}); name another file'
        ) from error
    if path.is_dir():
        raise ConfigError(f'{path}: found a directory, expected the name of a file')


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding='utf-8')
    print(f'wrote {path}')
