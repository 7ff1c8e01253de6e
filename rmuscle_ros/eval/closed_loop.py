"""Closed-loop trials on the simulated station, in this process, paired across modes.

Every mode runs the same scenes with the same noise. The modes take turns scene by scene, in an
order that rotates, so that a slow minute of the machine hits all of them alike. Between calls the
background work is given the time it needs; how long it took tells what an arm would have allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

import numpy as np
import torch
from tqdm import tqdm

from rmuscle_ros.errors import ConfigError, RebuildError
from rmuscle_ros.eval import comparison
from rmuscle_ros.eval.modes import DENSE, EvalMode
from rmuscle_ros.eval.oracle import DenseOracle
from rmuscle_ros.eval.trials import Call, Scene, Trial
from rmuscle_ros.eval.workbench import MOST_REFERENCE_TRIES, REFERENCE_SEED, Workbench
from rmuscle_ros.machine import machine, versions
from rmuscle_ros.memory.library import Library
from rmuscle_ros.rollout import EXECUTION_HORIZON, Actor, roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.types import ActionChunk, Observation, PolicyInfo

DRAIN_S = 60.0
# Every n-th call of one mode is also answered densely with other noise.
SPREAD_EVERY = 3


@dataclass(frozen=True)
class Request:
    """What to compare. command: the words that repeat it. references: episodes to record.

    ros: through the nodes, in real time; their noise cannot be paired.
    """

    checkpoint: str
    task: str
    seeds: Sequence[int]
    modes: Sequence[EvalMode]
    references: int
    command: str = ''
    ros: bool = False


class Ran(Protocol):
    """The policy and the references of a run, as its result needs them; a ``Workbench``, say."""

    @property
    def info(self) -> PolicyInfo: ...
    @property
    def trained(self) -> bool: ...
    @property
    def reference_seeds(self) -> Sequence[int]: ...
    @property
    def library(self) -> Library: ...

    def settings(self, mode: EvalMode) -> dict[str, Any]: ...


class Finished(Protocol):
    """What a run has measured so far; see ``ClosedLoop``."""

    @property
    def scenes(self) -> Sequence[Scene]: ...
    @property
    def spread(self) -> Sequence[float]: ...


def compare(request: Request, publish: Callable[[dict[str, Any]], None]) -> None:
    """Run everything, then give the result to ``publish``; also when interrupted or on an error.

    A run that ended early publishes the scenes that all modes have ended, if there are any, with
    ``complete`` false; the exception goes on.
    """
    started = datetime.now(timezone.utc)
    with ExitStack() as stack:
        bench = Workbench(request.checkpoint)
        size = bench.info.image_size[0]
        station = stack.enter_context(AlohaStation(size, request.task))
        if any(mode.references for mode in request.modes):
            check_apart(request)
            bench.record(station, request.references)
        actors = {
            mode.name: stack.enter_context(closing(bench.actor(mode))) for mode in request.modes
        }
        loop = ClosedLoop(station, actors, request.modes, DenseOracle(bench.engine()))
        try:
            loop.run(request.seeds)
        finally:
            if loop.scenes:
                publish(result(request, bench, loop, started))


def check_apart(request: Request) -> None:
    """Refuse scenes that are also recorded: a reference of its own scene would flatter."""
    last = REFERENCE_SEED + MOST_REFERENCE_TRIES * request.references - 1
    if request.seeds[-1] >= REFERENCE_SEED and request.seeds[0] <= last:
        raise ConfigError(
            f'--seed: found scenes {request.seeds[0]} to {request.seeds[-1]}, expected none of '
            f'{REFERENCE_SEED} to {last}, which references are recorded on'
        )


class ClosedLoop:
    """Runs modes in turn. ``scenes`` and ``spread`` hold what is finished, also when interrupted.

    spread: distances between dense answers that differ in nothing but their noise, in the unit of
    ``Call.error``.
    """

    def __init__(
        self,
        station: AlohaStation,
        actors: Mapping[str, Actor],
        modes: Sequence[EvalMode],
        oracle: DenseOracle,
    ) -> None:
        self.scenes: list[Scene] = []
        self.spread: list[float] = []
        self._station, self._actors, self._oracle = station, actors, oracle
        self._modes = {mode.name: mode for mode in modes}
        self._spread_mode = DENSE if DENSE in self._modes else modes[0].name
        self._spread_calls = 0

    def run(self, seeds: Sequence[int]) -> None:
        """Every mode on every scene; a scene counts once all modes have ended it."""
        for actor in self._actors.values():
            drain(actor)
        with tqdm(total=len(seeds) * len(self._modes), unit='episode') as bar:
            for number, seed in enumerate(seeds):
                scene = {}
                for name in rotated(list(self._modes), number):
                    bar.set_description(f'scene {seed} {name:13}')
                    scene[name] = self.trial(self._modes[name], seed)
                    bar.update()
                self.scenes.append(scene)

    def trial(self, mode: EvalMode, seed: int) -> Trial:
        """One mode on one scene. What it shows of the spread is added to ``spread``."""
        actor = self._actors[mode.name]
        calls: list[Call] = []

        def on_call(observation: Observation, noise: np.ndarray, chunk: ActionChunk) -> None:
            rebuild_ms = drain(actor)
            dense = mode.name == DENSE
            error = None if dense else self._oracle.error(observation, noise, chunk)
            if mode.name == self._spread_mode:
                stream = np.random.SeedSequence(seed, spawn_key=(len(calls),))
                self._measure_spread(observation, noise, stream)
            calls.append(_call(chunk, error, rebuild_ms if mode.rebuilds else None))

        rollout = roll_out(actor, self._station, seed, on_call=on_call)
        actor.end_episode(rollout.success)
        drain(actor)
        return Trial(rollout, tuple(calls))

    def _measure_spread(
        self, observation: Observation, noise: np.ndarray, stream: np.random.SeedSequence
    ) -> None:
        if self._spread_calls % SPREAD_EVERY == 0:
            other = np.random.default_rng(stream).standard_normal(noise.shape, np.float32)
            self.spread.append(self._oracle.spread(observation, noise, other))
        self._spread_calls += 1


def rotated(names: Sequence[str], number: int) -> list[str]:
    """The order in which scene ``number`` runs the modes."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def budget_ms(chunk: ActionChunk) -> float:
    """How long an arm moves between the end of this call and the beginning of the next one."""
    return EXECUTION_HORIZON * chunk.period_s * 1e3 - chunk.provenance.times.total_ms


def _call(chunk: ActionChunk, error: float | None, rebuild_ms: float | None) -> Call:
    missed = rebuild_ms is not None and rebuild_ms > budget_ms(chunk)
    return Call(chunk.provenance, error, rebuild_ms, missed)


def drain(actor: Actor) -> float:
    """Wait for the actor's background work; how long it took, in milliseconds."""
    start = time.perf_counter()
    if not actor.drain(DRAIN_S):
        raise RebuildError(
            f'the background work after a call has not ended in {DRAIN_S:g} s; use fewer '
            'cache.candidates or a shorter cache.lookahead'
        )
    return (time.perf_counter() - start) * 1e3


def result(request: Request, bench: Ran, loop: Finished, started: datetime) -> dict[str, Any]:
    """Everything needed to read the figures and to repeat them."""
    modes = request.modes
    figures = comparison.summarise(loop.scenes, [mode.name for mode in modes])
    for mode in modes:
        about = {'description': mode.description, 'method': mode.method or None}
        figures[mode.name] = about | figures[mode.name] | {'settings': bench.settings(mode)}
    finished = request.seeds[: len(loop.scenes)]
    return {
        **header(request, bench, started, finished),
        'spread': comparison.spread(loop.spread),
        'modes': figures,
        'episodes': {mode.name: comparison.episodes(loop.scenes, mode.name) for mode in modes},
    }


def header(
    request: Request, bench: Ran, started: datetime, finished: Sequence[int]
) -> dict[str, Any]:
    """What ran, on what: the part of a result that does not depend on its figures."""
    info = bench.info
    return {
        'schema': comparison.SCHEMA,
        'complete': len(finished) == len(request.seeds),
        'command': request.command,
        'started': started.isoformat(timespec='seconds'),
        'wall_s': round((datetime.now(timezone.utc) - started).total_seconds(), 1),
        'task': request.task,
        'instruction': TASKS[request.task].instruction,
        'seeds': [finished[0], finished[-1]],
        'references': {'seeds': list(bench.reference_seeds), 'entries': bench.library.entries},
        'model': {
            'name': info.model,
            'parameters': info.parameters,
            'trained': bench.trained,
            'fingerprint': info.fingerprint,
        },
        'execution': {
            'ros': request.ros,
            'horizon': EXECUTION_HORIZON,
            'period_s': info.period_s,
            'threads': torch.get_num_threads(),
            'device': info.device,
            'dtype': info.dtype,
            'engine': info.engine,
        },
        'versions': versions(),
        'machine': machine(),
    }
