"""Closed-loop trials through the nodes, in real time, paired across modes by their scenes.

The modes take turns scene by scene, in an order that rotates, so that a slow minute of the machine
hits all of them alike. Every mode has a policy node of its own, configured once; the nodes of the
other modes are inactive meanwhile, which costs a few percent of a core each.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from rclpy.utilities import get_rmw_implementation_identifier

from rmuscle_ros.config import PolicyConfig, fields_of
from rmuscle_ros.engine.device import resolve_threads
from rmuscle_ros.errors import ProcessError
from rmuscle_ros.eval import closed_loop
from rmuscle_ros.eval.closed_loop import Request, rotated
from rmuscle_ros.eval.modes import EvalMode
from rmuscle_ros.eval.trials import Call, Scene, Trial
from rmuscle_ros.eval.workbench import check_references
from rmuscle_ros.memory.library import Library
from rmuscle_ros.rollout import Rollout
from rmuscle_ros.ros.evaluation import references
from rmuscle_ros.ros.evaluation.lab import Lab, PolicyNode
from rmuscle_ros.ros.evaluation.plan import mode_parameters
from rmuscle_ros.ros.evaluation.progress import Progress
from rmuscle_ros.types import PolicyInfo, Provenance


def compare(request: Request, publish: Callable[[dict[str, Any]], None]) -> None:
    """Run everything, then give the result to ``publish``; also when interrupted or on an error.

    A run that ended early publishes the scenes that all modes have ended, if there are any, with
    ``complete`` false; the exception goes on, and the output of the nodes is kept.
    """
    started = datetime.now(timezone.utc)
    reading = any(mode.references for mode in request.modes)
    if reading:
        check_references(request.references)
        closed_loop.check_apart(request)
    folder = Path(tempfile.mkdtemp(prefix='rmuscle_eval_'))
    progress = Progress()
    with Lab(request.task, request.checkpoint, folder, progress) as lab:
        recorded, seeds = folder / 'library', []
        if reading:
            seeds = references.record(lab, request.references, recorded, progress)
        nodes = {
            mode.name: _start(lab, mode, recorded if seeds else None) for mode in request.modes
        }
        loop = RosLoop(nodes, request.task, progress)
        try:
            loop.run(request.seeds)
        finally:
            if loop.scenes:
                # As the nodes do; the result tells it.
                torch.set_num_threads(resolve_threads(lab.shared['engine.threads']))
                ran = Ran(loop, seeds, Library.load(recorded), bool(request.checkpoint))
                publish(result(request, ran, started))
    shutil.rmtree(folder)


def _start(lab: Lab, mode: EvalMode, recorded: Path | None) -> PolicyNode:
    if mode.references and recorded is not None:
        own = recorded.with_name(f'library_{mode.name}')
        recorded = references.fitted(recorded, mode, lab.shared, own)
    return lab.start(mode.name, mode_parameters(mode, recorded))


@dataclass(frozen=True)
class _Finished:
    """A trial whose action errors may still be on their way."""

    rollout: Rollout
    calls: tuple[Provenance, ...]


class RosLoop:
    """Runs modes in turn. ``scenes`` holds what is finished, also when interrupted."""

    spread: Sequence[float] = ()

    def __init__(self, nodes: Mapping[str, PolicyNode], task: str, progress: Progress) -> None:
        self.nodes = nodes
        self._task, self._progress = task, progress
        self._scenes: list[dict[str, _Finished]] = []

    @property
    def scenes(self) -> list[Scene]:
        """The scenes that all modes have ended, with the action errors known by now."""
        return [
            {name: self._trial(name, finished) for name, finished in scene.items()}
            for scene in self._scenes
        ]

    def run(self, seeds: Sequence[int]) -> None:
        """Every mode on every scene; a scene counts once all modes have ended it."""
        with self._progress.bar(len(seeds) * len(self.nodes)) as bar:
            for number, seed in enumerate(seeds):
                scene = {}
                for name in rotated(list(self.nodes), number):
                    bar.set_description(f'scene {seed} {name:13}')
                    scene[name] = self._episode(self.nodes[name], seed)
                    bar.update()
                self._scenes.append(scene)

    def shadow_spread(self) -> dict[str, Any]:
        """Distances between dense answers that differ in nothing but their noise.

        Of a node only the median is known, and not of how many calls.
        """
        found = (node.listener.spread_p50() for node in self.nodes.values())
        p50 = next((value for value in found if value is not None), None)
        return {'p50': p50, 'p99': None, 'max': None, 'calls': None}

    def _episode(self, node: PolicyNode, seed: int) -> _Finished:
        ended = node.run(seed, self._progress.episode)
        calls, result = node.listener.finish(), ended.result
        if result is None:
            raise ProcessError(f'{node.name}, scene {seed}: {ended.note}')
        rollout = Rollout(
            task=self._task,
            seed=seed,
            success=bool(result.success),
            max_reward=result.max_reward,
            steps=result.steps,
            calls=len(calls),
        )
        return _Finished(rollout, calls)

    def _trial(self, name: str, finished: _Finished) -> Trial:
        error = self.nodes[name].listener.error
        calls = tuple(Call(call, error(call.call)) for call in finished.calls)
        return Trial(finished.rollout, calls)


def result(request: Request, ran: Ran, started: datetime) -> dict[str, Any]:
    """Like that of a run in process; what topics do not tell is None.

    incidents: errors that the node of each mode has logged.
    """
    found = closed_loop.result(request, ran, ran.loop, started)
    versions = found['versions'] | {'rmw': get_rmw_implementation_identifier()}
    nodes = ran.loop.nodes.items()
    incidents = {name: list(node.listener.problems()) for name, node in nodes}
    spread = ran.loop.shadow_spread()
    return found | {'versions': versions, 'spread': spread, 'incidents': incidents}


@dataclass(frozen=True)
class Ran:
    """What ran, for the result."""

    loop: RosLoop
    reference_seeds: Sequence[int]
    library: Library
    trained: bool

    @property
    def info(self) -> PolicyInfo:
        for node in self.loop.nodes.values():
            info = node.listener.info()
            if info is not None:
                return info
        raise ProcessError('no policy node has described its policy on /diagnostics; see its log')

    def settings(self, mode: EvalMode) -> dict[str, Any]:
        """The policy's part of the node's parameters; one that its file leaves out is default."""
        # Where references lie is of no meaning once the run has ended.
        parameters = {**self.loop.nodes[mode.name].parameters, 'library.directory': ''}
        return {key: parameters.get(key, value) for key, _, value in fields_of(PolicyConfig())}
