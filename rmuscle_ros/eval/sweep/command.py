"""One setting at a time around the defaults, and the Action Cache's rules per unit of FFN work."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval import files
from rmuscle_ros.eval.sweep.factors import ALL, describe, find_factors
from rmuscle_ros.sim.tasks import TASKS

NONE = 'none'
EXAMPLES = f"""factors, each varied alone:
{describe()}

In closed loop every setting runs the same scenes with the same noise as dense; settings take
turns scene by scene. For the Action Cache, dense states of these scenes are answered with every
way to reuse denoise steps, prefill exact. Latency is that of an idle machine only if nothing else
runs.

With --json FILE what is finished is kept in FILE's journal (.journal.jsonl): the same command goes
on where it was interrupted, and another one with the same settings, scenes, model and software
does not measure them again.

examples:
  rmuscle eval sweep --json out/sweep.json
  rmuscle eval sweep --factors rho_p,error_budget --states 0 --episodes 10 --json out/rho_p.json
  rmuscle eval sweep --factors none --json out/action_cache.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--task', default='transfer_cube', choices=list(TASKS))
    parser.add_argument('--episodes', type=int, default=20, help='scenes per setting (20)')
    parser.add_argument(
        '--seed', type=int, default=700000, help='first scene (700000); those of tuning'
    )
    parser.add_argument(
        '--factors',
        default=ALL,
        help=f'comma-separated, see below, "{ALL}" ({ALL}) or "{NONE}": no closed loop',
    )
    parser.add_argument(
        '--states',
        type=int,
        default=3,
        help='states per scene for the Action Cache (3); 0 leaves that part out',
    )
    parser.add_argument(
        '--checkpoint',
        default='aloha_transfer_cube',
        help="directory, or a shipped one's name (aloha_transfer_cube); empty: untrained",
    )
    parser.add_argument(
        '--references', type=int, default=20, help='recorded episodes, unless varied (20)'
    )
    files.add_outputs(parser)


def run(args: argparse.Namespace) -> int:
    factors = [] if args.factors.strip() == NONE else find_factors(args.factors)
    _check(args, bool(factors))
    html = files.page_beside(args.json, args.html)
    kept = args.json.with_suffix('.journal.jsonl') if args.json else None
    files.check_outputs(json=args.json, html=html, journal=kept)
    # Imports PyTorch and MuJoCo, which --help does not need.
    from rmuscle_ros.eval.sweep import run as sweep
    from rmuscle_ros.eval.sweep.journal import Journal
    from rmuscle_ros.eval.sweep.table import table

    request = sweep.Request(
        checkpoint=args.checkpoint,
        task=args.task,
        seeds=range(args.seed, args.seed + args.episodes),
        factors=factors,
        references=args.references,
        states=args.states,
        command=command(args),
    )

    def publish(result: dict[str, Any]) -> None:
        files.publish(result, args.json, html, _page, table)

    sweep.run(request, Journal(kept), publish)
    return 0


def _check(args: argparse.Namespace, closed_loop: bool) -> None:
    for name, least in (('episodes', 1), ('seed', 0), ('states', 0), ('references', 2)):
        if getattr(args, name) < least:
            raise ConfigError(f'--{name}: found {getattr(args, name)}, expected at least {least}')
    if not closed_loop and not args.states:
        raise ConfigError(
            '--factors none with --states 0: found nothing to measure, expected one of the two'
        )


def _page(result: dict[str, Any]) -> str:
    # Imports Matplotlib.
    from rmuscle_ros.eval.sweep.page import page

    return page(result)


def command(args: argparse.Namespace) -> str:
    """The words that repeat the run."""
    options = ('task', 'episodes', 'seed', 'factors', 'states', 'checkpoint', 'references')
    words = [word for name in options for word in (f'--{name}', str(getattr(args, name)))]
    return shlex.join(['rmuscle', 'eval', 'sweep', *words])
