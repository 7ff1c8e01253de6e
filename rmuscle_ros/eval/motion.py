"""How smoothly commands go on where one chunk takes over from another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmuscle_ros.eval.records import JointTrace

_ROUNDING_S = 1e-6
_NOT_ANGLES = ('gripper', 'finger')


@dataclass(frozen=True)
class Step:
    """Change of one commanded joint between two consecutive samples."""

    joint: str
    time_s: float
    rad: float


@dataclass(frozen=True)
class BoundarySteps:
    """Largest command step at chunk boundaries and, for comparison, anywhere else.

    ``boundary`` is None without boundaries, ``inside`` without samples between them.
    """

    boundary: Step | None
    inside: Step | None
    boundaries: int


def boundary_steps(trace: JointTrace) -> BoundarySteps:
    """Compare the command steps where a new chunk took over with all other steps.

    A boundary covers the step into the chunk's first sample and one sample to either side, since
    the two are stamped on different clocks. Only angles count (a gripper finger moves in metres).
    A chunk that starts at or before the first sample has no predecessor and is no boundary.
    """
    angles = [i for i, name in enumerate(trace.joint_names) if is_angle(name)]
    times_s = np.asarray(trace.times_s, dtype=float)
    commanded = np.asarray(trace.commanded, dtype=float)[:, angles]
    steps = np.abs(np.diff(commanded, axis=0))
    starts_s = np.asarray(trace.chunk_starts_s, dtype=float)
    first = np.searchsorted(times_s, starts_s - _ROUNDING_S) - 1
    first = first[(first >= 0) & (first < len(steps))]
    at_boundary = np.zeros(len(steps), dtype=bool)
    for offset in (-1, 0, 1):
        at_boundary[np.clip(first + offset, 0, max(len(steps) - 1, 0))] = True
    names = [trace.joint_names[i] for i in angles]
    return BoundarySteps(
        _largest(steps, at_boundary, names, times_s),
        _largest(steps, ~at_boundary, names, times_s),
        len(first),
    )


def is_angle(joint_name: str) -> bool:
    """Whether a joint is measured in rad; grippers and fingers are not."""
    return not any(word in joint_name.lower() for word in _NOT_ANGLES)


def _largest(
    steps: np.ndarray, rows: np.ndarray, names: list[str], times_s: np.ndarray
) -> Step | None:
    """The largest finite step among the chosen rows of ``steps`` [T - 1, J]."""
    chosen = np.where(rows[:, None] & np.isfinite(steps), steps, -1.0)
    if chosen.size == 0 or chosen.max() < 0.0:
        return None
    row, column = np.unravel_index(int(chosen.argmax()), chosen.shape)
    return Step(names[column], float(times_s[row + 1]), float(chosen[row, column]))
