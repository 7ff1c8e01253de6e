"""The figures of the report page, as inline SVG. Matplotlib is needed only here and in ``svg``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rmuscle_ros.eval import svg, words
from rmuscle_ros.eval.motion import Step, boundary_steps, is_angle
from rmuscle_ros.eval.records import CACHED, DENSE, CallRecord, EpisodeRecord, JointTrace
from rmuscle_ros.statistics import median, quantile

STAGES = {
    'vision': 'vision tower',
    'prefill': 'prefill',
    'denoise': 'denoising',
    'prefill_denoise': 'prefill + denoising',
    'total': 'whole call',
}
# More dots than this hide each other and make the page heavy; then every n-th call is drawn.
MAX_DOTS = 400
# A joint that hardly moves must look still.
MIN_SPAN_RAD = 0.02
# Drift is reported in units of its limit.
DRIFT_FENCE = 1.0
KIND_COLOUR = {DENSE: svg.DENSE, CACHED: svg.CACHED}


def latency(calls: Mapping[str, Sequence[CallRecord]]) -> str:
    """One dot per call and stage, dense above cached, medians marked and labelled in ms.

    calls: 'dense' and 'cached' -> the calls compared (``summary.latency_calls``).
    """
    with svg.style():
        figure = svg.new_figure(560, 340)
        axes = figure.add_subplot()
        values = {
            (stage, kind): [call.latency_ms[stage] for call in calls[kind]]
            for stage in STAGES
            for kind in (DENSE, CACHED)
        }
        limit_ms = _axis_limit(values.values())
        for row, stage in enumerate(STAGES):
            for kind, offset in ((DENSE, -0.2), (CACHED, 0.2)):
                _strip(axes, values[stage, kind], row + offset, KIND_COLOUR[kind], limit_ms)
        axes.set_xlim(0, limit_ms)
        axes.set_ylim(len(STAGES) - 0.5, -0.5)
        axes.set_yticks(range(len(STAGES)), STAGES.values())
        axes.tick_params(axis='y', length=0, labelcolor=svg.INK)
        axes.spines['left'].set_visible(False)
        axes.grid(axis='x')
        axes.set_xlabel('time of one call, ms')
        return svg.to_svg(figure, 'Latency of each call by stage, dense and cached')


def _axis_limit(groups: Iterable[Sequence[float | None]]) -> float:
    """Right end of the axis: past every value, unless a few outliers would squeeze the rest."""
    present = [value for group in groups for value in group if value is not None]
    if not present:
        return 1.0
    high = quantile(present, 0.95)
    return 1.08 * (max(present) if high is None else min(max(present), 2.0 * high))


def _strip(
    axes: Axes, values: Sequence[float | None], y: float, colour: str, limit_ms: float
) -> None:
    """Dots with a fixed jitter, a tick at the median, its label, and a note on what is cut off."""
    present = np.array([value for value in values if value is not None])
    if not present.size:
        axes.text(0.01 * limit_ms, y, words.NO_DATA, va='center', color=svg.MUTED, fontsize=10)
        return
    shown = present[present <= limit_ms]
    dots = shown[:: 1 + len(shown) // MAX_DOTS]
    jitter = 0.13 * np.random.default_rng(0).uniform(-1.0, 1.0, len(dots))
    axes.scatter(dots, y + jitter, s=13, color=colour, alpha=0.5, linewidths=0)
    middle = median(values)
    if middle is not None:
        axes.plot([middle, middle], [y - 0.19, y + 0.19], color=svg.INK, linewidth=2)
        left = _gap(shown[shown >= middle], limit_ms) + 0.012 * limit_ms
        axes.text(left, y, words.ms(middle), va='center', fontsize=10)
    if len(shown) < len(present):
        note = f'{len(present) - len(shown)} beyond, up to {words.ms(float(present.max()))} →'
        axes.text(limit_ms, y, note, va='center', ha='right', color=svg.MUTED, fontsize=9)


def _gap(right_of_median: np.ndarray, limit_ms: float) -> float:
    """Where dots leave room for a label: the start of the first wide gap, or the last dot."""
    ordered = np.append(np.sort(right_of_median), np.inf)
    wide = np.diff(ordered) > 0.1 * limit_ms
    return float(ordered[int(wide.argmax())])


@dataclass(frozen=True)
class Scales:
    """Vertical ranges shared by the episodes of a page, and the fences drawn in them."""

    similarity: tuple[float, float]
    drift: tuple[float, float] | None
    similarity_fence: float | None
    drift_fence: float | None


def scales(episodes: Sequence[EpisodeRecord], settings: Mapping[str, Any]) -> Scales:
    """Ranges that hold every call and both fences; no drift axis when no call has a drift."""
    calls = [call for episode in episodes for call in episode.calls]
    fence = settings.get('similarity_threshold')
    limit = DRIFT_FENCE if settings.get('drift_fence', True) else None
    similar = [call.similarity for call in calls if call.similarity is not None]
    drifts = [call.drift for call in calls if call.drift is not None]
    low = min([*similar, 0.9 if fence is None else fence])
    return Scales(
        similarity=(low - 0.12 * (1.0 - low) - 0.02, 1.0 + 0.08 * (1.0 - low)),
        drift=(0.0, 1.15 * max([*drifts, limit or 0.0])) if drifts else None,
        similarity_fence=fence,
        drift_fence=limit,
    )


def episode(record: EpisodeRecord, shared: Scales) -> str:
    """Similarity of each call along the episode, and its drift below, one mark per call.

    Calls that were not matched have no similarity: their marks stand on the time axis.
    """
    with svg.style():
        rows = 1 if shared.drift is None else 2
        figure = svg.new_figure(350, 150 + 85 * (rows - 1))
        heights = [1.6, 1.0][:rows]
        axes = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        _marks(axes[0], record, 'similarity', shared.similarity)
        _fence(axes[0], shared.similarity_fence, 'fence {:.2f}: dense below', 'top')
        axes[0].set_ylabel('similarity')
        if shared.drift is not None:
            _marks(axes[1], record, 'drift', shared.drift)
            _fence(axes[1], shared.drift_fence, 'fence {:g}: dense above', 'bottom')
            axes[1].set_ylabel('drift / limit')
        axes[-1].set_xlabel('time in the episode, s')
        figure.align_ylabels()
        return svg.to_svg(figure, f'Similarity of each call of {record.kind} {record.index}')


def _marks(axes: Axes, record: EpisodeRecord, quantity: str, limits: tuple[float, float]) -> None:
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    for reason, (colour, marker) in svg.REASON_MARKS.items():
        calls = [call for call in record.calls if call.reason is reason]
        for matched in (True, False):
            chosen = [call for call in calls if (getattr(call, quantity) is not None) == matched]
            axes.scatter(
                [call.time_s for call in chosen],
                [getattr(call, quantity) if matched else limits[0] for call in chosen],
                s=34,
                marker=marker,
                facecolors=colour if matched else 'none',
                edgecolors=colour,
                linewidths=0.9,
                clip_on=False,
            )


def _fence(axes: Axes, value: float | None, label: str, side: str) -> None:
    if value is None:
        return
    axes.axhline(value, color=svg.INK, linewidth=1, linestyle=(0, (5, 3)))
    offset = -2 if side == 'top' else 2
    axes.annotate(
        label.format(value),
        (0.0, value),
        (3, offset),
        xycoords=('axes fraction', 'data'),
        textcoords='offset points',
        va=side,
        fontsize=9,
    )


def joints(trace: JointTrace, kind: str, names: Sequence[str]) -> str:
    """Commanded and measured positions of the joints ``names``; then the largest jump.

    Vertical lines mark where a new chunk took over. The last row zooms into the boundary with
    the largest command step.
    """
    jump = boundary_steps(trace).boundary
    chosen = [trace.joint_names.index(name) for name in names if name in trace.joint_names]
    with svg.style():
        count = len(chosen) + (jump is not None)
        figure = svg.new_figure(540, 40 + 96 * count)
        axes = figure.subplots(count, 1, squeeze=False)[:, 0]
        for row, joint in enumerate(chosen):
            _joint(axes[row], trace, joint, KIND_COLOUR[kind])
            axes[row].set_title(_joint_title(trace.joint_names[joint]))
            axes[row].set_xlim(trace.times_s[0], trace.times_s[-1])
            axes[row].tick_params(labelbottom=row == len(chosen) - 1)
        if chosen:
            axes[len(chosen) - 1].set_xlabel('time in the episode, s')
        if jump is not None:
            _zoom(axes[-1], trace, jump, KIND_COLOUR[kind])
        return svg.to_svg(figure, f'Joint positions across chunk boundaries, {kind} episode')


def most_moved(trace: JointTrace, most: int = 3) -> list[str]:
    """The ``most`` angles with the largest commanded range, in the trace's order."""
    commanded = np.asarray(trace.commanded, dtype=float)
    angles = [i for i, name in enumerate(trace.joint_names) if is_angle(name)]

    def moved_rad(joint: int) -> float:
        present = commanded[np.isfinite(commanded[:, joint]), joint]
        return float(np.ptp(present)) if present.size else 0.0

    chosen = sorted(sorted(angles, key=moved_rad, reverse=True)[:most])
    return [trace.joint_names[i] for i in chosen]


def _joint_title(name: str) -> str:
    return f'{name}, {"rad" if is_angle(name) else "m"}'


def _joint(axes: Axes, trace: JointTrace, joint: int, colour: str) -> None:
    for start_s in trace.chunk_starts_s:
        axes.axvline(start_s, color=svg.MUTED, linewidth=0.7, alpha=0.55)
    axes.plot(
        trace.times_s, trace.measured[:, joint], color=svg.MUTED, linewidth=1.4, dashes=(2, 1)
    )
    axes.plot(trace.times_s, trace.commanded[:, joint], color=colour, linewidth=1.4)
    low, high = axes.get_ylim()
    if high - low < MIN_SPAN_RAD:
        middle = (low + high) / 2
        axes.set_ylim(middle - MIN_SPAN_RAD / 2, middle + MIN_SPAN_RAD / 2)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.ticklabel_format(axis='y', useOffset=False, style='plain')


def _zoom(axes: Axes, trace: JointTrace, jump: Step, colour: str, half_s: float = 0.4) -> None:
    """The joint of the largest step, ``half_s`` to either side of it, samples shown as dots."""
    joint = trace.joint_names.index(jump.joint)
    near = np.abs(np.asarray(trace.times_s) - jump.time_s) <= half_s
    cut = JointTrace(
        trace.times_s[near],
        trace.commanded[near],
        trace.measured[near],
        trace.joint_names,
        tuple(t for t in trace.chunk_starts_s if abs(t - jump.time_s) <= half_s),
    )
    _joint(axes, cut, joint, colour)
    axes.plot(cut.times_s, cut.commanded[:, joint], '.', color=colour, markersize=4)
    axes.set_title(f'Largest step at a boundary: {jump.joint}, {words.rad(jump.rad)}')
    axes.set_xlim(jump.time_s - half_s, jump.time_s + half_s)
    axes.set_xlabel('time in the episode, s')
