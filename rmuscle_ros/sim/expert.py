"""The scripted expert of both tasks: joint targets from the place of the cube.

Way-points of the tool points are solved by inverse kinematics and joined in joint space. Nothing
ever stands still before the task is done: while an arm waits its own gripper or the other arm
moves, so that a policy trained on these plans always sees from the state what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmuscle_ros.errors import RmuscleError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.kinematics import ArmKinematics, smooth_path
from rmuscle_ros.sim.simulator import load_scene
from rmuscle_ros.sim.tasks import find_task

OPEN_M, CLOSED_M = 0.057, 0.021
GRASP_PITCH_RAD = np.deg2rad(75.0)  # at 45 to 60 degrees forearm roll and wrist are singular
GRASP_HEIGHT_M = 0.02
ABOVE_M = 0.08
MEETING_POINT = np.array([0.0, 0.5, 0.25])
LEFT_APPROACH_M = 0.10
LEFT_REACH_M = 0.008  # past the meeting point: a firmer hold; at 0.015 the fingers collide
RETREAT_M = 0.10
LIFT_M = 0.18
TOOL_M = {'left': 0.150, 'right': 0.145}

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Grip:
    """How a gripper points.

    axes: [3, 3], its axes in the world, columns: forward, towards its left finger, and their
        cross product.
    posture: [6], joints near which the solution is sought. Forearm roll and wrist have a second
        solution half a turn away; plans must not switch between the two.
    """

    axes: np.ndarray
    posture: np.ndarray


@dataclass(frozen=True)
class WayPoint:
    """Where a tool point is at a control step: position [3], world, m."""

    step: int
    tool: np.ndarray
    grip: Grip


@dataclass(frozen=True)
class ArmScript:
    """One arm's way-points, and its gripper as (step, finger position in m), linear between."""

    way_points: tuple[WayPoint, ...]
    gripper: tuple[tuple[int, float], ...]


class Expert:
    """Plans demonstrations. Not thread-safe; SetupError without the simulator."""

    def __init__(self) -> None:
        model = load_scene().compile_model()
        self._arms = {side: ArmKinematics(model, side, tool_m) for side, tool_m in TOOL_M.items()}

    def plan(
        self, cube_xy: np.ndarray, task: str = 'transfer_cube', start: np.ndarray | None = None
    ) -> np.ndarray:
        """Joint targets float64 [steps, 14] for ``AlohaStation.step``, one per control step.

        cube_xy: [2], centre of the cube on the table, world, m.
        start: [14], where the arms are before the first target; None is ``aloha.HOME``.
        Raises RmuscleError for a cube out of reach, ConfigError for an unknown task.
        """
        cube_xy = np.asarray(cube_xy, np.float64)
        if cube_xy.shape != (2,) or not np.isfinite(cube_xy).all():
            raise RmuscleError(f'cube_xy: found {cube_xy!r}, expected two finite numbers, m')
        found = find_task(task)
        scripts = _SCRIPTS[found.name](np.append(cube_xy, GRASP_HEIGHT_M))
        start = aloha.HOME if start is None else np.asarray(start, np.float64)
        if start.shape != aloha.HOME.shape:
            raise RmuscleError(f'start: found shape {start.shape}, expected {aloha.HOME.shape}')
        left = self._follow('left', scripts['left'], start[:7], found.steps)
        right = self._follow('right', scripts['right'], start[7:], found.steps)
        return np.concatenate([left, right], axis=1)

    def _follow(self, side: str, script: ArmScript, start: np.ndarray, steps: int) -> np.ndarray:
        """One arm's targets [steps, 7]; row k is the path at step k + 1, ``start`` at step 0."""
        at = np.arange(1, steps + 1, dtype=np.float64)
        arm = self._arms[side]
        points = [
            start[:6],
            *(
                arm.solve(point.tool, point.grip.axes, point.grip.posture)
                for point in script.way_points
            ),
        ]
        knots = [0, *(point.step for point in script.way_points)]
        if knots[-1] < steps:
            knots.append(steps)
            points.append(points[-1])
        joints = smooth_path(knots, np.array(points), at)
        times, fingers = zip((0, start[6]), *script.gripper, strict=True)
        return np.column_stack([joints, np.interp(at, times, fingers)])


def _grip(forward: Vector, fingers: Vector, *posture: float) -> Grip:
    axes = np.column_stack([forward, fingers, np.cross(forward, fingers)])
    return Grip(axes, np.array(posture))


# The right gripper picks with its fingers along world y and holds level at the meeting point; the
# left one takes the cube with its fingers vertical.
PICK = _grip(
    (-np.cos(GRASP_PITCH_RAD), 0.0, -np.sin(GRASP_PITCH_RAD)),
    (0.0, -1.0, 0.0),
    *(0.0, 0.0, 0.6, 0.0, 0.8, 0.0),
)
OFFER = _grip((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), *(0.0, -0.1, 0.8, 0.0, -0.6, 0.0))
TAKE = _grip((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), *(0.0, -0.1, 0.8, 0.0, -0.6, 1.57))


def _pick(cube: np.ndarray) -> tuple[WayPoint, ...]:
    """The right arm over the cube, down, and still until the fingers have closed."""
    above = cube + np.array([0.0, 0.0, ABOVE_M])
    return (WayPoint(45, above, PICK), WayPoint(70, cube, PICK), WayPoint(80, cube, PICK))


def _transfer(cube: np.ndarray) -> dict[str, ArmScript]:
    along_x = np.array([1.0, 0.0, 0.0])
    right = ArmScript(
        way_points=(
            *_pick(cube),
            WayPoint(128, MEETING_POINT, OFFER),
            WayPoint(158, MEETING_POINT, OFFER),
            WayPoint(250, MEETING_POINT + RETREAT_M * along_x, OFFER),
        ),
        gripper=((10, OPEN_M), (70, OPEN_M), (76, CLOSED_M), (153, CLOSED_M), (160, OPEN_M)),
    )
    left = ArmScript(
        way_points=(
            WayPoint(95, MEETING_POINT - LEFT_APPROACH_M * along_x, TAKE),
            WayPoint(145, MEETING_POINT + LEFT_REACH_M * along_x, TAKE),
            WayPoint(160, MEETING_POINT + LEFT_REACH_M * along_x, TAKE),
            WayPoint(250, MEETING_POINT - RETREAT_M * along_x, TAKE),
        ),
        gripper=((60, OPEN_M), (144, OPEN_M), (150, CLOSED_M)),
    )
    return {'left': left, 'right': right}


def _lift(cube: np.ndarray) -> dict[str, ArmScript]:
    lifted = cube + np.array([0.0, 0.0, LIFT_M])
    right = ArmScript(
        way_points=(*_pick(cube), WayPoint(125, lifted, PICK)),
        gripper=((10, OPEN_M), (70, OPEN_M), (76, CLOSED_M)),
    )
    return {'left': ArmScript(way_points=(), gripper=()), 'right': right}


_SCRIPTS = {'transfer_cube': _transfer, 'lift_cube': _lift}
