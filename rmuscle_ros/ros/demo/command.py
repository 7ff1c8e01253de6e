"""Run station and node as processes, episodes dense and cached, and report what they did."""

from __future__ import annotations

import argparse
import time
from collections import deque
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rmuscle_ros.eval.records import EpisodeRecord, RunRecord
from rmuscle_ros.eval.report import write_report
from rmuscle_ros.eval.summary import summarise, table, write_summary
from rmuscle_ros.presets import PRESETS
from rmuscle_ros.ros.demo.plan import PlannedEpisode, plan, replacement
from rmuscle_ros.ros.demo.progress import Progress
from rmuscle_ros.ros.demo.record import run_record
from rmuscle_ros.ros.demo.setup import UNTRAINED_NOTE, Setup, prepare
from rmuscle_ros.ros.demo.system import System
from rmuscle_ros.ros.local_run import interruptible, spinning_node
from rmuscle_ros.ros.runner import Runner, commands, describe

EXAMPLES = """examples:
  rmuscle demo
  rmuscle demo --reference 2 --cached 1 --dense 1 --out out/quick
  rmuscle demo --preset paper --out out/paper
  rmuscle demo --error-budget 0.01 --anchors 0,1,3,6 --json out/careful.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``rmuscle demo``."""
    parser.add_argument(
        '--out',
        type=Path,
        metavar='DIR',
        default=Path('out/demo'),
        help='results (out/demo)',
    )
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the summary here as well')
    parser.add_argument(
        '--reference', type=int, metavar='N', default=12, help='recorded episodes (12)'
    )
    parser.add_argument('--cached', type=int, metavar='N', default=5, help='cached episodes (5)')
    parser.add_argument('--dense', type=int, metavar='N', default=2, help='dense episodes (2)')
    parser.add_argument('--seed', type=int, metavar='N', default=0, help='first scene (0)')
    add_cache_arguments(parser)
    parser.add_argument(
        '--params-file',
        type=Path,
        metavar='YAML',
        help="the node's parameters instead of config/aloha.yaml",
    )
    parser.add_argument(
        '--station-params-file',
        type=Path,
        metavar='YAML',
        help='those of the station, else config/station.yaml',
    )


def add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the caches; where none is given the parameter file holds."""
    parser.add_argument(
        '--preset', choices=PRESETS, default='default', help='settings of the caches (default)'
    )
    parser.add_argument(
        '--error-budget', type=float, metavar='ERROR', help="the guard's, normalised units"
    )
    parser.add_argument(
        '--rho-p', type=float, metavar='SHARE', help='visual rows recomputed, at least'
    )
    parser.add_argument(
        '--anchors', metavar='STEPS', help='denoise steps computed densely, such as 0,2,5,8'
    )
    parser.add_argument(
        '--rho-n',
        type=float,
        metavar='SHARE',
        help='FFN neurons computed between anchors; 0 skips these steps',
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo and write its results; 1 when a process did not end well, else 0."""
    begin_s = time.monotonic()
    setup = prepare(args)
    episodes = plan(args.reference, args.cached, args.dense, args.seed)
    progress = Progress(len(episodes))
    with progress, interruptible():
        record, ended_well = _run_episodes(setup, episodes, progress)
    summary = summarise(record)
    for path in filter(None, (args.out / 'summary.json', args.json)):
        write_summary(summary, path)
    write_report(record, summary, args.out / 'report.html')
    print(f'\n{table(summary)}\n')
    print(f'report:  {args.out / "report.html"}')
    print(f'summary: {args.out / "summary.json"} (after {time.monotonic() - begin_s:.0f} s)')
    return 0 if ended_well else 1


def _run_episodes(
    setup: Setup, episodes: list[PlannedEpisode], progress: Progress
) -> tuple[RunRecord, bool]:
    """Start everything, run all episodes, stop everything; the run, and whether it ended well."""
    started = datetime.now().astimezone().isoformat(sep=' ', timespec='seconds')
    runner = Runner(
        commands(setup.deployment, setup.environment),
        setup.environment,
        setup.log_directory,
        progress.line,
    )
    progress.line(
        f'station and node on ROS_DOMAIN_ID={setup.domain_id}, this machine only; '
        f'their output is in {setup.log_directory}'
    )
    namespace = setup.deployment.namespace
    with runner, spinning_node('rmuscle_demo', setup.domain_id, namespace) as node:
        system = System(
            node, setup.deployment, setup.episode_length_s, runner.check, progress.waiting
        )
        system.configure()
        if not setup.trained:
            progress.line(UNTRAINED_NOTE)
        records, calibration_s = _all_episodes(system, episodes, progress)
        facts = system.recorder.facts()
        codes = runner.stop()
    endings = tuple(f'{name} ended with {describe(code)}' for name, code in codes.items() if code)
    facts = replace(facts, incidents=facts.incidents + endings)
    return run_record(setup, records, facts, started, calibration_s), not endings


def _all_episodes(
    system: System, episodes: list[PlannedEpisode], progress: Progress
) -> tuple[list[EpisodeRecord], float | None]:
    """The records, and how long was waited for the calibration; None when it was not awaited."""
    records: list[EpisodeRecord] = []
    references = sum(planned.recorded for planned in episodes)
    calibration_s = None
    waiting = deque(episodes)
    while waiting:
        planned = waiting.popleft()
        if references and calibration_s is None and not planned.recorded:
            calibration_s = _calibrate(system, progress)
        number = len(records) + 1
        records.append(system.run(planned, progress.episode(number, planned)))
        progress.finished(number, planned, records[-1])
        if planned.recorded and not records[-1].admitted:
            again = replacement(planned, references)
            if again is not None:
                waiting.appendleft(again)
                progress.add_episode()
    return records, calibration_s


def _calibrate(system: System, progress: Progress) -> float:
    """Before anything is compared: else its first calls are dense and share the cores with it."""
    begin_s = time.monotonic()
    done = system.calibrate()
    seconds = time.monotonic() - begin_s
    text = 'fences and guard calibrated after' if done else 'going on, not calibrated after'
    progress.line(f'{text} {seconds:.0f} s of waiting')
    return seconds
