"""Closed-loop success of a checkpoint on scenes that no demonstration shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from tqdm import tqdm

from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.policy import Policy
from rmuscle_ros.rollout import Rollout, roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import TASKS


@dataclass(frozen=True)
class TaskResult:
    """All episodes of one task."""

    task: str
    rollouts: tuple[Rollout, ...]

    @property
    def episodes(self) -> int:
        return len(self.rollouts)

    @property
    def successes(self) -> int:
        return sum(rollout.success for rollout in self.rollouts)

    @property
    def lifts(self) -> int:
        """Episodes in which the right arm lifted the cube."""
        return sum(rollout.lifted for rollout in self.rollouts)

    @property
    def failed_seeds(self) -> list[int]:
        return [rollout.seed for rollout in self.rollouts if not rollout.success]


def evaluate(
    checkpoint: str, seeds: Sequence[int], tasks: Iterable[str] = TASKS
) -> list[TaskResult]:
    """Every task on every seed with dense calls."""
    values = {'model.checkpoint': checkpoint, 'cache.enabled': False}
    results = []
    with closing(Policy.from_config(with_values(PolicyConfig(), values))) as policy:
        for task in tasks:
            with AlohaStation(policy.info.image_size[0], task) as station:
                bar = tqdm(seeds, desc=task, unit='episode')
                rollouts = tuple(roll_out(policy, station, seed) for seed in bar)
            results.append(TaskResult(task, rollouts))
    return results
