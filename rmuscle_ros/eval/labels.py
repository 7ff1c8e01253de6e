"""Labels beside the points of a figure, placed so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rmuscle_ros.eval import svg

SIZE_PX = 11.0
MARKER_PX = 7.0
LINE_PX = 1.5
# The page's font is not known here; this is about the widest of the usual ones.
WIDTH_EM, BOLD_WIDTH_EM, HEIGHT_EM = 0.62, 0.72, 1.25
# Directions of a label from its point, the most readable first, at growing distances.
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
DISTANCES_PX = (0.0, 7.0, 16.0, 28.0, 42.0)


@dataclass(frozen=True)
class Label:
    """``text`` for the point ``(x, y)`` in data coordinates."""

    text: str
    x: float
    y: float
    bold: bool = False


Box = tuple[float, float, float, float]
# Both ends of a horizontal or vertical line, in data coordinates.
Line = tuple[tuple[float, float], tuple[float, float]]


def place(figure: Figure, axes: Axes, labels: Sequence[Label], lines: Sequence[Line]) -> None:
    """Write the labels, each at the free place nearest to its point; far ones get a line to it.

    lines: what a label should not cover either.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine('none')
    # Offsets are in points; the figure's pixels follow its resolution.
    scale = 72.0 / figure.dpi

    def at(x: float, y: float) -> np.ndarray:
        return np.asarray(axes.transData.transform((x, y))) * scale

    points = [at(label.x, label.y) for label in labels]
    frame = tuple(value * scale for value in axes.bbox.extents)
    taken = [_box(point, (0.0, 0.0), 2 * MARKER_PX, 2 * MARKER_PX) for point in points]
    taken += [_around(at(*start), at(*end)) for start, end in lines]
    for label, point in zip(labels, points, strict=True):
        width_em = BOLD_WIDTH_EM if label.bold else WIDTH_EM
        width, height = width_em * SIZE_PX * len(label.text), HEIGHT_EM * SIZE_PX
        centre, far = _free_place(point, width, height, frame, taken)
        taken.append(_box(point, centre, width, height))
        axes.annotate(
            label.text,
            (label.x, label.y),
            centre,
            textcoords='offset points',
            ha='center',
            va='center',
            fontsize=SIZE_PX,
            fontweight='bold' if label.bold else 'normal',
            color=svg.INK,
            arrowprops={'arrowstyle': '-', 'color': svg.MUTED, 'linewidth': 0.7} if far else None,
        )


def _free_place(
    point: np.ndarray, width: float, height: float, frame: Sequence[float], taken: Sequence[Box]
) -> tuple[tuple[float, float], bool]:
    """Offset of the label's centre from its point, and whether it needs a line to it."""
    best, least = ((0.0, 0.0), False), np.inf
    for distance in DISTANCES_PX:
        for dx, dy in DIRECTIONS:
            reach = MARKER_PX + 2.0 + distance
            centre = (dx * (reach + width / 2), dy * (reach + height / 2))
            box = _box(point, centre, width, height)
            cost = sum(_overlap(box, other) for other in taken) + 3 * _outside(box, frame)
            if cost < least:
                best, least = (centre, distance > DISTANCES_PX[1]), cost
            if cost == 0:
                return best
    return best


def _box(point: np.ndarray, centre: tuple[float, float], width: float, height: float) -> Box:
    x, y = float(point[0]) + centre[0], float(point[1]) + centre[1]
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _around(start: np.ndarray, end: np.ndarray) -> Box:
    (left, low), (right, high) = np.minimum(start, end) - LINE_PX, np.maximum(start, end) + LINE_PX
    return float(left), float(low), float(right), float(high)


def _overlap(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def _outside(box: Box, frame: Sequence[float]) -> float:
    """The part of the box's area that lies outside the frame."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, (frame[0], frame[1], frame[2], frame[3]))
