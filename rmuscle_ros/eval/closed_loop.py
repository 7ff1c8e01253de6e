"""Closed-loop success and latency on the simulated station, in this process, paired by seed.

Every mode runs the same scenes with the same noise. Between calls the rebuild thread is given the
time it needs, as an arm that moves would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.machine import machine, versions
from rmuscle_ros.policy import Policy
from rmuscle_ros.rollout import Rollout, roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.statistics import median, quantile, wilson
from rmuscle_ros.types import CALL_CATEGORIES, ActionChunk, Provenance

MODES: dict[str, dict[str, Any]] = {
    'dense': {'enabled': False},
    'rmuscle': {'enabled': True},
}
# Reference episodes come from scenes that no evaluation uses.
REFERENCE_SEED = 500_000
MOST_REFERENCE_TRIES = 4
DRAIN_S = 60.0


@dataclass(frozen=True)
class ModeResult:
    """All episodes of one mode, in the order of the seeds, and all their calls."""

    rollouts: tuple[Rollout, ...]
    calls: tuple[Provenance, ...]

    @property
    def successes(self) -> int:
        return sum(rollout.success for rollout in self.rollouts)


def compare(
    checkpoint: str, task: str, seeds: Sequence[int], modes: Sequence[str], references: int
) -> dict[str, Any]:
    """Run every mode on every seed; everything needed to read the figures and to repeat them.

    references: successful episodes recorded first, when a mode uses the caches.
    """
    values = {'model.checkpoint': checkpoint}
    with closing(Policy.from_config(with_values(PolicyConfig(), values))) as policy:
        with AlohaStation(policy.info.image_size[0], task) as station:
            if any(MODES[mode]['enabled'] for mode in modes):
                record_references(policy, station, references)
            results = {mode: evaluate(policy, station, mode, seeds) for mode in modes}
        return {
            'schema': 1,
            'task': task,
            'seeds': [seeds[0], seeds[-1]],
            'model': {'name': policy.info.model, 'fingerprint': policy.info.fingerprint},
            'versions': versions(),
            'machine': machine(),
            'modes': {mode: _mode(result) for mode, result in results.items()},
            'episodes': {mode: _episodes(result) for mode, result in results.items()},
        }


def record_references(policy: Policy, station: AlohaStation, count: int) -> None:
    """Fill the policy's library with ``count`` successful dense episodes."""
    if count < 2:
        raise ConfigError(
            f'references: found {count}, expected at least 2: the drift fence compares episodes'
        )
    policy.tune(enabled=False, record=True)
    bar = tqdm(total=count, desc='references', unit='episode')
    for seed in range(REFERENCE_SEED, REFERENCE_SEED + MOST_REFERENCE_TRIES * count):
        rollout = roll_out(policy, station, seed)
        bar.update(policy.end_episode(rollout.success).admitted)
        if policy.status().library_episodes == count:
            break
    else:
        raise ConfigError(
            f'found {policy.status().library_episodes} successes in '
            f'{MOST_REFERENCE_TRIES * count} episodes of {station.task.name}, expected {count}: '
            'this policy does not do the task; give a trained --checkpoint or --modes dense'
        )
    bar.close()
    policy.tune(record=False)


def evaluate(policy: Policy, station: AlohaStation, mode: str, seeds: Sequence[int]) -> ModeResult:
    """One mode on every seed."""
    policy.tune(**MODES[mode])
    calls: list[Provenance] = []

    def on_chunk(chunk: ActionChunk) -> None:
        calls.append(chunk.provenance)
        policy.drain(DRAIN_S)

    rollouts = []
    for seed in tqdm(seeds, desc=mode, unit='episode'):
        rollouts.append(roll_out(policy, station, seed, on_chunk=on_chunk))
        policy.end_episode(rollouts[-1].success)
        policy.drain(DRAIN_S)
    return ModeResult(tuple(rollouts), tuple(calls))


def _episodes(result: ModeResult) -> list[dict[str, Any]]:
    return [
        {'seed': r.seed, 'success': r.success, 'max_reward': r.max_reward, 'steps': r.steps}
        for r in result.rollouts
    ]


def _mode(result: ModeResult) -> dict[str, Any]:
    n = len(result.rollouts)

    def stage(name: str, of: Callable[[list[float]], float | None]) -> float | None:
        return of([getattr(call.times, f'{name}_ms') for call in result.calls])

    return {
        'success': [result.successes, n],
        'success_interval': list(wilson(result.successes, n)),
        'lifted': [sum(rollout.lifted for rollout in result.rollouts), n],
        'calls': {
            category: sum(call.reason.category == category for call in result.calls)
            for category in CALL_CATEGORIES
        },
        'latency_ms': {
            'p50': stage('total', median),
            'p99': stage('total', lambda values: quantile(values, 0.99)),
            **{name: stage(name, median) for name in ('vision', 'prefill', 'denoise')},
        },
    }


def table(result: Mapping[str, Any]) -> str:
    """The result for a terminal."""
    lines = [
        f'{result["task"]}, scenes {result["seeds"][0]} to {result["seeds"][1]}, '
        f'{result["model"]["name"]}',
        '',
        f'{"mode":12}{"success":>10}{"95 % interval":>18}{"lifted":>10}{"cached calls":>14}'
        f'{"call p50":>11}',
    ]
    for name, mode in result['modes'].items():
        low, high = mode['success_interval']
        p50 = mode['latency_ms']['p50']
        calls = f'{mode["calls"]["cached"]} of {sum(mode["calls"].values())}'
        success, lifted = ('{} of {}'.format(*mode[key]) for key in ('success', 'lifted'))
        interval = f'{low:.0%} to {high:.0%}'
        latency = 'no data' if p50 is None else f'{p50:.1f} ms'
        lines.append(f'{name:12}{success:>10}{interval:>18}{lifted:>10}{calls:>14}{latency:>11}')
    return '\n'.join(lines)
