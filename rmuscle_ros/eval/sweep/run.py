"""Runs a sweep: what the journal lacks is measured, everything is summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import torch
from tqdm import tqdm

from rmuscle_ros.eval import closed_loop
from rmuscle_ros.eval.closed_loop import ClosedLoop
from rmuscle_ros.eval.modes import DENSE, MODES
from rmuscle_ros.eval.oracle import DenseOracle
from rmuscle_ros.eval.sweep import figures
from rmuscle_ros.eval.sweep.bench import DENSE_SETTING, SharedNoiseOracle, SweepBench
from rmuscle_ros.eval.sweep.factors import Factor, Setting, plan
from rmuscle_ros.eval.sweep.grid import Grid, StateGrid
from rmuscle_ros.eval.sweep.identity import circumstances
from rmuscle_ros.eval.sweep.journal import Journal
from rmuscle_ros.eval.sweep.reuse import Comparison, collect
from rmuscle_ros.eval.sweep.variants import variants
from rmuscle_ros.sim.station import AlohaStation


@dataclass(frozen=True)
class Request:
    """What to sweep.

    factors: in closed loop; none of them leaves that part out. states: per scene, for the Action
    Cache; 0 leaves that part out. references: recorded episodes, unless a factor says otherwise.
    command: the words that repeat it.
    """

    checkpoint: str
    task: str
    seeds: Sequence[int]
    factors: Sequence[Factor]
    references: int
    states: int
    command: str = ''


class Sweep:
    """One run. ``trials`` and ``states`` hold what is finished, also when interrupted."""

    def __init__(self, request: Request, journal: Journal) -> None:
        self.started = datetime.now(timezone.utc)
        self.request, self._journal = request, journal
        self.plan = plan(request.factors, request.references)
        most = max(setting.references for setting in self.plan.settings.values())
        closed_loop.check_apart(self.as_request(most))
        self.bench = SweepBench(request.checkpoint)
        self._same = circumstances(self.bench, request.task, torch.get_num_threads())
        settings = [DENSE_SETTING, *self.plan.settings.values()] if request.factors else []
        self.trials = Grid(settings, request.seeds, journal, self._same)
        about = {**self._same, 'references': request.references, 'states': request.states}
        seeds = request.seeds if request.states else []
        self.states = StateGrid(variants(), seeds, journal, about)

    def as_request(self, references: int) -> closed_loop.Request:
        """The sweep as a comparison of modes."""
        request = self.request
        return closed_loop.Request(
            request.checkpoint, request.task, request.seeds, (), references, request.command
        )

    def run(self) -> None:
        """Measure everything that is missing."""
        missing = [self.trials.settings[name] for name in self.trials.missing()]
        wanted = [setting.references for setting in missing]
        wanted += [self.request.references] if self.states.pending() else []
        if not wanted and self.references() is not None:
            return
        size = self.bench.info.image_size[0]
        with AlohaStation(size, self.request.task) as station:
            self._record(station, max([*wanted, self.request.references]))
            self._run_trials(station, missing)
            self._run_states(station)

    def references(self) -> dict[str, Any] | None:
        """Scenes and number of entries of the default's recorded episodes; None before that."""
        found: dict[str, Any] | None = self._journal.get(self._about_references())
        return found

    def _about_references(self) -> dict[str, Any]:
        return {**self._same, 'recorded': self.request.references}

    def _record(self, station: AlohaStation, count: int) -> None:
        self.bench.record(station, count)
        own = list(self.bench.library)[: self.request.references]
        value = {
            'seeds': self.bench.reference_seeds[: self.request.references],
            'entries': sum(len(episode.entries) for episode in own),
        }
        if self.references() != value:
            self._journal.put(self._about_references(), 'references', value)

    def _run_trials(self, station: AlohaStation, missing: Sequence[Setting]) -> None:
        """The settings take turns, scene by scene, as the modes of ``rmuscle eval`` do."""
        pending = self.trials.pending()
        with ExitStack() as stack:
            actors = {
                setting.name: stack.enter_context(closing(self.bench.policy(setting)))
                for setting in tqdm(missing, desc='calibration', unit='setting')
            }
            modes = {setting.name: self.bench.mode(setting) for setting in missing}
            # The first mode measures the spread: dense does, or none.
            listed = [MODES[DENSE], *(mode for name, mode in modes.items() if name != DENSE)]
            engine = self.bench.engine()
            own = ClosedLoop(station, actors, listed, DenseOracle(engine))
            oracle = SharedNoiseOracle(engine, self.bench.noises())
            shared = ClosedLoop(station, actors, listed, oracle)
            total = sum(map(len, pending.values()))
            bar = stack.enter_context(tqdm(total=total, unit='episode', smoothing=0.05))
            for seed, names in pending.items():
                for name in names:
                    bar.set_description(f'scene {seed} {name:24.24}')
                    loop = shared if figures.shares_noise(self.trials.settings[name]) else own
                    before = len(loop.spread)
                    trial = loop.trial(modes[name], seed)
                    self.trials.put(name, seed, trial, loop.spread[before:])
                    bar.update()

    def _run_states(self, station: AlohaStation) -> None:
        pending = self.states.pending()
        if not pending:
            return
        engine = self.bench.engine()
        episodes = list(self.bench.library)[: self.request.references]
        comparison = Comparison(engine, variants())
        with closing(self.bench.policy(DENSE_SETTING)) as dense:
            for seed in tqdm(pending, desc='Action Cache', unit='scene'):
                found = collect(dense, station, seed, engine, episodes, self.request.states)
                self.states.put(seed, found, comparison)


def run(request: Request, journal: Journal, publish: Callable[[dict[str, Any]], None]) -> None:
    """Sweep, then give the result to ``publish``; also when interrupted or on an error.

    A run that ended early publishes what is finished, if anything is, with ``complete`` false;
    the exception goes on.
    """
    made = Sweep(request, journal)
    try:
        made.run()
    finally:
        if made.trials.finished() or made.states.rows:
            publish(result(made))


def result(made: Sweep) -> dict[str, Any]:
    """Everything needed to read the figures and to repeat them."""
    trials, states, seeds = made.trials, made.states, made.request.seeds
    ended = trials.finished() if trials.settings else sorted(states.rows)
    base = closed_loop.header(
        made.as_request(made.request.references), made.bench, made.started, ended or seeds
    )
    complete = not trials.pending() and not states.pending()
    return {
        **base,
        'schema': figures.SCHEMA,
        'complete': complete,
        'references': made.references(),
        'found': {'trials': [trials.found, len(trials)], 'scenes': [states.found, len(states)]},
        'settings': made.bench.settings(made.bench.mode(made.plan.settings['default'])),
        'closed_loop': figures.closed_loop(trials, made.plan) if trials.finished() else None,
        'action_cache': figures.action_cache(states) if states.rows else None,
    }
