"""The figures of paired trials: what the result's JSON says of each mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rmuscle_ros.eval.modes import DENSE
from rmuscle_ros.eval.trials import Call, Scene, Trial
from rmuscle_ros.statistics import (
    largest,
    mcnemar,
    mean,
    median,
    paired_difference,
    quantile,
    ratio,
    wilson,
)
from rmuscle_ros.types import CALL_CATEGORIES

SCHEMA = 2
# A wait shorter than this found nothing to do; expanding an entry takes far longer.
NO_WORK_MS = 1.0
STAGES = ('vision', 'prefill', 'denoise')


def summarise(scenes: Sequence[Scene], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The figures of each mode; what there is no data for is None."""
    modes = {name: _mode(name, scenes) for name in names}
    dense = modes.get(DENSE)
    for mode in modes.values():
        for key in ('p50', 'mean'):
            dense_ms = dense['latency_ms'][key] if dense else None
            mode[f'speedup_{key}'] = ratio(dense_ms, mode['latency_ms'][key])
        mode['dominated_by'] = [name for name, other in modes.items() if _dominates(other, mode)]
    return modes


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Distances between dense answers that differ in nothing but their noise."""
    return _tail(values)


def episodes(scenes: Sequence[Scene], name: str) -> list[dict[str, Any]]:
    """Every trial of a mode, its calls as columns."""
    return [_episode(scene[name]) for scene in scenes]


def _mode(name: str, scenes: Sequence[Scene]) -> dict[str, Any]:
    trials = [scene[name] for scene in scenes]
    calls = [call for trial in trials for call in trial.calls]
    k, n = sum(trial.rollout.success for trial in trials), len(trials)
    reasons = [call.provenance.reason.category for call in calls]
    similarity = [call.provenance.similarity for call in calls]
    return {
        'success': [k, n],
        'success_interval': list(wilson(k, n)),
        **_against_dense(name, scenes),
        'lifted': [sum(trial.rollout.lifted for trial in trials), n],
        'calls': {category: reasons.count(category) for category in CALL_CATEGORIES},
        'latency_ms': _latency(trials),
        'action_error': None if name == DENSE else _error(trials),
        'similarity': {'p5': quantile(similarity, 0.05), 'p50': median(similarity)},
        'rebuild': _rebuild(calls),
    }


def _against_dense(name: str, scenes: Sequence[Scene]) -> dict[str, Any]:
    """McNemar's test and the interval of the difference; None where dense did not run."""
    if name == DENSE or not scenes or DENSE not in scenes[0]:
        return {'mcnemar': None, 'difference': None}
    pairs = [(scene[name].rollout, scene[DENSE].rollout) for scene in scenes]
    better = [ours.seed for ours, dense in pairs if ours.success and not dense.success]
    worse = [ours.seed for ours, dense in pairs if dense.success and not ours.success]
    both = sum(ours.success and dense.success for ours, dense in pairs)
    neither = len(pairs) - both - len(better) - len(worse)
    return {
        'mcnemar': {
            'better': len(better),
            'worse': len(worse),
            'p': mcnemar(len(better), len(worse)),
            'better_seeds': better,
            'worse_seeds': worse,
        },
        'difference': {
            'share': (len(better) - len(worse)) / len(pairs),
            'interval': list(paired_difference(both, len(better), len(worse), neither)),
        },
    }


def _latency(trials: Sequence[Trial]) -> dict[str, Any]:
    """Whole calls, medians of the stages, and means of the stages, which add up."""

    def stage_ms(stage: str) -> Callable[[Call], float]:
        return lambda call: getattr(call.provenance.times, f'{stage}_ms')

    def medians(stage: str) -> float | None:
        return median(stage_ms(stage)(call) for trial in trials for call in trial.calls)

    total = stage_ms('total')
    return {
        'p50': medians('total'),
        'p99': quantile((total(call) for trial in trials for call in trial.calls), 0.99),
        'mean': _scene_mean(trials, total),
        **{stage: medians(stage) for stage in STAGES},
        'stage_means': {stage: _scene_mean(trials, stage_ms(stage)) for stage in STAGES},
    }


def _scene_mean(trials: Sequence[Trial], of: Callable[[Call], float | None]) -> float | None:
    """Mean over scenes of each scene's mean over calls; None without any value.

    A failed episode has about three times the calls of a successful one: in a mean over calls it
    would count three times, and only in the modes that fail.
    """
    return mean(mean(of(call) for call in trial.calls) for trial in trials)


def _error(trials: Sequence[Trial]) -> dict[str, Any]:
    values = [call.error for trial in trials for call in trial.calls]
    return {'mean': _scene_mean(trials, lambda call: call.error), **_tail(values)}


def _tail(values: Iterable[float | None]) -> dict[str, Any]:
    present = [value for value in values if value is not None]
    return {
        'p50': median(present),
        'p99': quantile(present, 0.99),
        'max': largest(present),
        'calls': len(present),
    }


def _rebuild(calls: Sequence[Call]) -> dict[str, Any] | None:
    """Times of the calls after which there was work; misses of all calls."""
    times = [call.rebuild_ms for call in calls if call.rebuild_ms is not None]
    if not times:
        return None
    worked = [ms for ms in times if ms > NO_WORK_MS]
    return {
        'ms': {'p50': median(worked), 'p99': quantile(worked, 0.99), 'max': largest(worked)},
        'worked': len(worked),
        'misses': sum(call.missed for call in calls),
        'calls': len(times),
    }


def point(mode: Mapping[str, Any]) -> tuple[float, float] | None:
    """Mean latency in ms and mean action error; None without data.

    Means, because a mode mixes cached and dense calls: a median shows only one kind of them.
    """
    ms, error = mode['latency_ms']['mean'], mode['action_error']
    accuracy = 0.0 if error is None else error['mean']
    return None if ms is None or accuracy is None else (ms, accuracy)


def _dominates(other: Mapping[str, Any], mode: Mapping[str, Any]) -> bool:
    """Whether ``other`` is faster and at least as accurate, or as fast and more accurate."""
    theirs, ours = point(other), point(mode)
    if theirs is None or ours is None:
        return False
    return theirs != ours and theirs[0] <= ours[0] and theirs[1] <= ours[1]


def _episode(trial: Trial) -> dict[str, Any]:
    rollout = trial.rollout
    provenances = [call.provenance for call in trial.calls]
    return {
        'seed': rollout.seed,
        'success': rollout.success,
        'max_reward': rollout.max_reward,
        'steps': rollout.steps,
        'calls': {
            'reason': [provenance.reason.value for provenance in provenances],
            'total_ms': [_rounded(provenance.times.total_ms) for provenance in provenances],
            'action_error': [_rounded(call.error) for call in trial.calls],
            'similarity': [_rounded(provenance.similarity) for provenance in provenances],
            'rebuild_ms': [_rounded(call.rebuild_ms) for call in trial.calls],
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f'{value:.5g}')
