"""``summary.json`` of a run, schema 1, and the table a terminal shows. Missing data is null."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import RecordError
from rmuscle_ros.eval import words
from rmuscle_ros.eval.motion import BoundarySteps, Step, boundary_steps
from rmuscle_ros.eval.records import CACHED, DENSE, KINDS, CallRecord, EpisodeRecord, RunRecord
from rmuscle_ros.statistics import largest, mean, median, quantile, ratio
from rmuscle_ros.types import CALL_CATEGORIES, Mode, Reason

SCHEMA = 1


def summarise(run: RunRecord) -> dict[str, Any]:
    """The summary of a run as plain values, ready for JSON.

    ``calls`` counts every call of the run by category. Latencies compare like with like:
    ``cached`` are the cached calls of the cached episodes, ``dense`` all dense calls of the dense
    comparison episodes; reference episodes are left out because recording costs time. An
    episode's first call may follow idle time: it is kept, ``first_calls`` says how many there
    are. Quantiles need one expected sample beyond them (p50: 2, p5: 20, p99: 100), else null.
    """
    calls = {kind: latency_calls(run, kind) for kind in (DENSE, CACHED)}
    latency = {kind: _latency(run, kind, chosen) for kind, chosen in calls.items()}
    dense, cached = latency[DENSE], latency[CACHED]
    return {
        'schema': SCHEMA,
        'started': run.started,
        'versions': dict(run.versions),
        'machine': dict(run.machine),
        'model': asdict(run.model),
        'settings': dict(run.settings),
        'episodes': [_episode(episode) for episode in run.episodes],
        'calls': count_calls(call for episode in run.episodes for call in episode.calls),
        'latency_ms': latency,
        'speedup_p50': ratio(dense['p50'], cached['p50']),
        'ratio_prefill_denoise_p50': ratio(
            cached['prefill_denoise_p50'], dense['prefill_denoise_p50']
        ),
        'cached_share_after_first': _cached_share_after_first(run),
        'success': {kind: successes(run.of_kind(kind)) for kind in KINDS},
        'similarity': _similarity(run),
        'recomputed': _recomputed(run),
        'window': None if run.window is None else asdict(run.window),
        'incidents': list(run.incidents),
    }


def write_summary(summary: Mapping[str, Any], path: str | Path) -> None:
    """Write ``summary`` as strict JSON (no NaN), making the directory if needed."""
    try:
        text = json.dumps(summary, indent=2, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise RecordError(
            f'{path}: the summary holds something JSON cannot ({error}); '
            'settings, versions and machine must be plain values, None for "no data"'
        ) from error
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text + '\n')


def latency_calls(run: RunRecord, kind: str) -> list[CallRecord]:
    """The calls whose latency stands for ``kind``, 'dense' or 'cached' (see ``summarise``)."""
    mode = Mode.CACHED if kind == CACHED else Mode.DENSE
    return [call for episode in run.of_kind(kind) for call in episode.calls if call.mode is mode]


def count_calls(calls: Iterable[CallRecord]) -> dict[str, int]:
    """Calls by category (``rmuscle_ros.types.CALL_CATEGORIES``)."""
    counts = Counter(call.reason.category for call in calls)
    return {category: counts[category] for category in CALL_CATEGORIES}


def successes(episodes: Iterable[EpisodeRecord]) -> list[int] | None:
    """``[k, n]`` over the episodes that were judged; None when none was."""
    verdicts = [episode.success for episode in episodes if episode.success is not None]
    return [sum(verdicts), len(verdicts)] if verdicts else None


def _latency(run: RunRecord, kind: str, calls: list[CallRecord]) -> dict[str, Any]:
    """Milliseconds: quantiles of the whole call (p50 … max), then medians by stage."""
    total = [call.total_ms for call in calls]
    first = {id(episode.calls[0]) for episode in run.of_kind(kind) if episode.calls}
    return {
        'n': len(calls),
        'first_calls': sum(id(call) in first for call in calls),
        'p50': median(total),
        'p95': quantile(total, 0.95),
        'p99': quantile(total, 0.99),
        'max': largest(total),
        'vision': median(call.vision_ms for call in calls),
        'prefill': median(call.prefill_ms for call in calls),
        'denoise': median(call.denoise_ms for call in calls),
        'prefill_denoise_p50': median(call.prefill_denoise_ms for call in calls),
        'gate_wait_max': largest(call.gate_wait_ms for call in calls),
    }


def _cached_share_after_first(run: RunRecord) -> float | None:
    """Share of cached calls among all but the first of each cached episode."""
    later = [call for episode in run.of_kind(CACHED) for call in episode.calls[1:]]
    return ratio(sum(call.cached for call in later), len(later))


def _similarity(run: RunRecord) -> dict[str, float | None]:
    """Similarity of all calls of the cached episodes that were matched, fallbacks included."""
    values = [call.similarity for episode in run.of_kind(CACHED) for call in episode.calls]
    return {'p5': quantile(values, 0.05), 'p50': median(values)}


def _recomputed(run: RunRecord) -> dict[str, Any]:
    """Share of visual rows that cached calls recomputed: the mean, and calls by share.

    over_budget: calls of the cached episodes that the guard ran densely.
    """
    shares = [call.rho_p for call in latency_calls(run, CACHED) if call.rho_p is not None]
    reasons = [call.reason for episode in run.of_kind(CACHED) for call in episode.calls]
    counts = Counter(sorted(shares))
    return {
        'mean': mean(shares),
        'calls': {f'{share:g}': count for share, count in counts.items()},
        'over_budget': reasons.count(Reason.OVER_BUDGET),
    }


def _episode(episode: EpisodeRecord) -> dict[str, Any]:
    trace = episode.joints
    steps = BoundarySteps(None, None, 0) if trace is None else boundary_steps(trace)
    return {
        'kind': episode.kind,
        'index': episode.index,
        'seed': episode.seed,
        'task': episode.task,
        'success': episode.success,
        'max_reward': episode.max_reward,
        'admitted': episode.admitted,
        'note': episode.note,
        'calls': count_calls(episode.calls),
        'similarity_min': min(
            (call.similarity for call in episode.calls if call.similarity is not None),
            default=None,
        ),
        'drift_max': largest(call.drift for call in episode.calls),
        'total_ms_p50': median(call.total_ms for call in episode.calls),
        'boundary_step_rad': _rad(steps.boundary),
        'inside_step_rad': _rad(steps.inside),
    }


def _rad(step: Step | None) -> float | None:
    return None if step is None else step.rad


def table(summary: Mapping[str, Any]) -> str:
    """The summary for a terminal: plain words, units, 79 columns."""
    lines = [
        words.what_ran(summary),
        f'Policy: {words.model(summary["model"])}',
        '',
        *_latency_lines(summary),
        *_success_lines(summary),
        '',
        *_call_lines(summary),
    ]
    if summary['incidents']:
        lines += ['', 'Incidents:', *(f'  - {text}' for text in summary['incidents'])]
    return '\n'.join(lines)


def _row(label: str, *cells: str) -> str:
    return f'{label:<34}' + ''.join(f'{cell:>14}' for cell in cells).rstrip()


def _latency_lines(summary: Mapping[str, Any]) -> list[str]:
    dense, cached = (summary['latency_ms'][kind] for kind in (DENSE, CACHED))
    rows = {
        'one call, median': 'p50',
        '  of it vision tower': 'vision',
        '  of it prefill': 'prefill',
        '  of it denoising': 'denoise',
        '  of it prefill + denoising': 'prefill_denoise_p50',
        'one call, 99th percentile': 'p99',
        'one call, slowest': 'max',
    }
    return [
        _row('', 'dense', 'cached', 'cached/dense'),
        _row('calls timed', str(dense['n']), str(cached['n'])),
        *(
            _row(
                label,
                words.ms(dense[key]),
                words.ms(cached[key]),
                words.number(ratio(cached[key], dense[key])),
            )
            for label, key in rows.items()
        ),
        *words.missing_p99(summary),
    ]


def _success_lines(summary: Mapping[str, Any]) -> list[str]:
    counts = [words.k_of_n(summary['success'][kind]) for kind in (DENSE, CACHED)]
    lines = [_row('episodes that succeeded', *counts)]
    if summary['model']['trained'] is False:
        lines.append(words.UNTRAINED)
    return lines


def _call_lines(summary: Mapping[str, Any]) -> list[str]:
    share = words.percent(summary['cached_share_after_first'])
    return [
        f'All {sum(summary["calls"].values())} calls of the run, recording included:',
        *(
            f'{summary["calls"][category]:>6}  {text}'
            for category, text in words.CATEGORY_WORDS.items()
        ),
        f'Cached among the calls after the first of each cached episode: {share}',
        *_computed_lines(summary),
    ]


def _computed_lines(summary: Mapping[str, Any]) -> list[str]:
    """What cached calls still computed; nothing when none ran."""
    recomputed = summary['recomputed']
    if recomputed['mean'] is None:
        return []
    shares = ', '.join(f'{share}: {n}' for share, n in recomputed['calls'].items())
    steps = words.steps(summary['settings'])
    return [
        f'Image rows that cached calls recompute: {words.percent(recomputed["mean"])} on average',
        f'  {words.rows(summary)}',
        f'  calls by share: {shares}',
        *([f'Cached calls: {steps}'] if steps else []),
    ]
