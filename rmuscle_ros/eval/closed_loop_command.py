"""Success, latency and action error in closed loop on the station, paired across modes."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.modes import MODES, EvalMode, describe, find_modes
from rmuscle_ros.sim.tasks import TASKS

if TYPE_CHECKING:
    from rmuscle_ros.eval.closed_loop import Request

Publish = Callable[[dict[str, Any]], None]

EXAMPLES = f"""modes:
{describe(list(MODES.values()))}

Every mode runs the same scenes with the same noise; the modes take turns in one process. Latency
is that of an idle machine only if nothing else runs. Ctrl-C ends early: what is finished is
printed and written, with "complete": false.

examples:
  rmuscle eval --task transfer_cube --episodes 50 --modes all --json out/eval.json
  rmuscle eval --task lift_cube --episodes 20 --modes dense,rmuscle
  rmuscle eval --ros --episodes 10 --modes dense,rmuscle --json out/ros.json
other evaluations:
  rmuscle eval characterise --help
  rmuscle eval separation --help
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--ros',
        action='store_true',
        help='through the ROS nodes, in real time (rmuscle eval --ros --help)',
    )
    parser.add_argument('--task', default='transfer_cube', choices=list(TASKS))
    parser.add_argument('--episodes', type=int, default=50, help='scenes per mode (50)')
    parser.add_argument(
        '--seed', type=int, default=0, help='first scene (0); training shows none below 1000000'
    )
    parser.add_argument(
        '--modes',
        default='dense,rmuscle',
        help='comma-separated, or "all" (dense,rmuscle); see below',
    )
    parser.add_argument(
        '--checkpoint',
        default='aloha_transfer_cube',
        help="directory, or a shipped one's name (aloha_transfer_cube); empty: untrained",
    )
    parser.add_argument(
        '--references', type=int, default=20, help='episodes recorded for the caches (20)'
    )
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the result here too')
    parser.add_argument(
        '--html', type=Path, metavar='FILE', help='write the page here (default: beside --json)'
    )


def run(args: argparse.Namespace) -> int:
    if args.ros:
        raise ConfigError('--ros: found it abbreviated, expected the whole word')
    request, publish = prepare(args, find_modes(args.modes))
    from rmuscle_ros.eval import closed_loop

    closed_loop.compare(request, publish)
    return 0


def prepare(args: argparse.Namespace, modes: Sequence[EvalMode]) -> tuple[Request, Publish]:
    """What to compare, and where the result goes; ConfigError before anything runs."""
    if args.episodes < 1:
        raise ConfigError(f'--episodes: found {args.episodes}, expected at least 1')
    html = args.html or (args.json.with_suffix('.html') if args.json else None)
    if html is not None and html == args.json:
        raise ConfigError(f'--json: found {args.json}, whose page would be the same file')
    for path in filter(None, (args.json, html)):
        _check_writable(path)
    # Imports PyTorch and MuJoCo, which --help does not need.
    from rmuscle_ros.eval import closed_loop, comparison_table

    request = closed_loop.Request(
        checkpoint=args.checkpoint,
        task=args.task,
        seeds=range(args.seed, args.seed + args.episodes),
        modes=modes,
        references=args.references,
        command=command(args),
        ros=args.ros,
    )

    def publish(result: dict[str, Any]) -> None:
        # Files first: a closed pipe must not cost them.
        written = _write(result, args.json, html)
        print(comparison_table.table(result))
        print(''.join(f'wrote {path}\n' for path in written), end='')

    return request, publish


def command(args: argparse.Namespace) -> str:
    """The words that repeat the run."""
    options = ('task', 'episodes', 'seed', 'modes', 'checkpoint', 'references')
    words = [word for name in options for word in (f'--{name}', str(getattr(args, name)))]
    return shlex.join(['rmuscle', 'eval', *(['--ros'] if args.ros else []), *words])


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


def _write(result: dict[str, Any], json_path: Path | None, html_path: Path | None) -> list[Path]:
    if json_path is not None:
        json_path.write_text(json.dumps(result, indent=1, allow_nan=False) + '\n')
    if html_path is not None:
        # Imports Matplotlib.
        from rmuscle_ros.eval.comparison_page import page

        html_path.write_text(page(result), encoding='utf-8')
    return [path for path in (json_path, html_path) if path is not None]
