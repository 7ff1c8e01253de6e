"""Success, latency and action error in closed loop on the station, paired across modes."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval import files
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
  rmuscle eval sweep --help
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
    files.add_outputs(parser)


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
    if args.seed < 0:
        raise ConfigError(f'--seed: found {args.seed}, expected a scene from 0 on')
    html = files.page_beside(args.json, args.html)
    files.check_outputs(json=args.json, html=html)
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
        files.publish(result, args.json, html, _page, comparison_table.table)

    return request, publish


def command(args: argparse.Namespace) -> str:
    """The words that repeat the run."""
    options = ('task', 'episodes', 'seed', 'modes', 'checkpoint', 'references')
    words = [word for name in options for word in (f'--{name}', str(getattr(args, name)))]
    return shlex.join(['rmuscle', 'eval', *(['--ros'] if args.ros else []), *words])


def _page(result: dict[str, Any]) -> str:
    # Imports Matplotlib.
    from rmuscle_ros.eval.comparison_page import page

    return page(result)
