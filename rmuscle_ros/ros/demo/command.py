"""Run station and node as processes, episodes dense and cached, and report what they did."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from rmuscle_ros.eval.records import EpisodeRecord, RunRecord
from rmuscle_ros.eval.report import write_report
from rmuscle_ros.eval.summary import summarise, table, write_summary
from rmuscle_ros.ros.demo.plan import PlannedEpisode, plan, replacement
from rmuscle_ros.ros.demo.progress import Progress
from rmuscle_ros.ros.demo.record import run_record
from rmuscle_ros.ros.demo.setup import UNTRAINED_NOTE, Setup, prepare
from rmuscle_ros.ros.demo.system import System
from rmuscle_ros.ros.runner import Runner, commands, describe

EXAMPLES = """examples:
  rmuscle demo
  rmuscle demo --reference 2 --cached 1 --dense 1 --out out/quick
  rmuscle demo --rho-p 0.2 --rho-n 0.25 --json out/aggressive.json
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
        '--reference', type=int, metavar='N', default=8, help='recorded episodes (8)'
    )
    parser.add_argument('--cached', type=int, metavar='N', default=5, help='cached episodes (5)')
    parser.add_argument('--dense', type=int, metavar='N', default=2, help='dense episodes (2)')
    parser.add_argument('--seed', type=int, metavar='N', default=0, help='first scene (0)')
    parser.add_argument('--rho-p', type=float, metavar='SHARE', help='visual rows recomputed')
    parser.add_argument('--rho-n', type=float, metavar='SHARE', help='FFN neurons computed')
    parser.add_argument('--group-len', type=int, metavar='N', help='denoise steps per anchor')
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


def run(args: argparse.Namespace) -> int:
    """Run the demo and write its results; 1 when a process did not end well, else 0."""
    begin_s = time.monotonic()
    setup = prepare(args)
    episodes = plan(args.reference, args.cached, args.dense, args.seed)
    progress = Progress(len(episodes))
    with progress, _interruptible():
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
    with runner, _spinning_node(setup) as node:
        system = System(
            node, setup.deployment, setup.episode_length_s, runner.check, progress.waiting
        )
        system.configure()
        if not setup.trained:
            progress.line(UNTRAINED_NOTE)
        records: list[EpisodeRecord] = []
        references = sum(planned.recorded for planned in episodes)
        waiting = deque(episodes)
        while waiting:
            planned = waiting.popleft()
            number = len(records) + 1
            records.append(system.run(planned, progress.episode(number, planned)))
            progress.finished(number, planned, records[-1])
            if planned.recorded and not records[-1].admitted:
                again = replacement(planned, references)
                if again is not None:
                    waiting.appendleft(again)
                    progress.add_episode()
        facts = system.recorder.facts()
        codes = runner.stop()
    endings = tuple(f'{name} ended with {describe(code)}' for name, code in codes.items() if code)
    facts = replace(facts, incidents=facts.incidents + endings)
    return run_record(setup, records, facts, started), not endings


@contextmanager
def _spinning_node(setup: Setup) -> Iterator[Node]:
    """A node of our own, spun by a thread; Ctrl-C stays with the main thread."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO, domain_id=setup.domain_id)
    node = Node('rmuscle_demo', namespace=setup.deployment.namespace)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.2)

    thread = threading.Thread(target=spin, name='demo topics', daemon=True)
    thread.start()
    try:
        yield node
    finally:
        stop.set()
        thread.join(timeout=5.0)
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
