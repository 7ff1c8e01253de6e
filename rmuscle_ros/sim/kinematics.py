"""Inverse kinematics of one arm by damped least squares, and paths through way-points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rmuscle_ros.errors import RmuscleError
from rmuscle_ros.sim import aloha

if TYPE_CHECKING:
    import mujoco

DAMPING = 1e-4
ORIENTATION_WEIGHT = 0.3
MAX_STEP_RAD = 0.2
MAX_ITERATIONS = 300
TOLERANCE = 1e-5
MAX_POSITION_ERROR_M = 2e-3


class ArmKinematics:
    """Finds the joints that bring an arm's tool point to a pose.

    The tool point lies ``tool_m`` along the gripper's x axis (its pointing direction); its y axis
    is the direction in which the fingers open.
    """

    def __init__(self, model: mujoco.MjModel, side: str, tool_m: float) -> None:
        import mujoco

        self._mujoco = mujoco
        self._model = model
        self._data = mujoco.MjData(model)
        self._body = model.body(f'vx300s_{side}/gripper_link').id
        arm = aloha.LEFT_ARM if side == 'left' else aloha.RIGHT_ARM
        joints = [
            model.joint(f'vx300s_{side}/{name.removeprefix(f"follower_{side}_")}')
            for name in aloha.JOINT_NAMES[arm]
        ]
        self._positions = np.array([joint.qposadr[0] for joint in joints])
        self._velocities = np.array([joint.dofadr[0] for joint in joints])
        self._lower, self._upper = aloha.LOWER[arm], aloha.UPPER[arm]
        self._tool_m = tool_m

    def solve(self, tool: np.ndarray, rotation: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Joint angles float64 [6] (rad) for a tool pose, iterated from ``start`` [6].

        tool: [3], world, m. rotation: [3, 3], columns are the gripper's axes in the world.
        Each iteration solves ``dq = Jᵀ (J Jᵀ + λ 1)⁻¹ e`` (Nakamura and Hanafusa 1986), with the
        orientation rows of J and e weighted. Raises RmuscleError when the arm cannot get there.
        """
        joints = np.array(start, np.float64)
        for _ in range(MAX_ITERATIONS):
            jacobian, error = self._linearise(joints, tool, rotation)
            if np.abs(error).max() < TOLERANCE:
                break
            gram = jacobian @ jacobian.T + DAMPING * np.eye(6)
            change = jacobian.T @ np.linalg.solve(gram, error)
            change *= min(1.0, MAX_STEP_RAD / np.abs(change).max())
            joints = np.clip(joints + change, self._lower, self._upper)
        miss_m = float(np.linalg.norm(error[:3]))
        if miss_m > MAX_POSITION_ERROR_M:
            raise RmuscleError(
                f'no joint angles found for tool position {np.round(tool, 3)} m: the closest is '
                f'{miss_m * 1e3:.1f} mm away; expected a point within reach of the arm'
            )
        return joints

    def _linearise(
        self, joints: np.ndarray, tool: np.ndarray, rotation: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weighted Jacobian [6, 6] and pose error [6] (position, then orientation)."""
        self._data.qpos[self._positions] = joints
        self._mujoco.mj_kinematics(self._model, self._data)
        self._mujoco.mj_comPos(self._model, self._data)
        axes = self._data.xmat[self._body].reshape(3, 3)
        point = self._data.xpos[self._body] + self._tool_m * axes[:, 0]
        move, turn = np.zeros((2, 3, self._model.nv))
        self._mujoco.mj_jac(self._model, self._data, move, turn, point, self._body)
        turn_error = 0.5 * np.cross(axes, rotation, axis=0).sum(axis=1)
        jacobian = np.concatenate([move, ORIENTATION_WEIGHT * turn])[:, self._velocities]
        return jacobian, np.concatenate([tool - point, ORIENTATION_WEIGHT * turn_error])


def smooth_path(steps: Sequence[int], points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A path through way-points that starts and ends at rest and never overshoots.

    Piecewise cubic with the slopes of Fritsch and Butland (1984): it stops a joint only where the
    joint turns round, and passes other way-points without slowing to a halt.

    steps: [N], increasing. points: [N, J]. at: [T] steps within them. Returns [T, J].
    """
    knots = np.asarray(steps, np.float64)
    lengths = np.diff(knots)[:, None]
    secants = np.diff(points, axis=0) / lengths
    slopes = np.zeros_like(points, dtype=np.float64)
    before, after = secants[:-1], secants[1:]
    same_way = before * after > 0.0
    w1, w2 = 2.0 * lengths[1:] + lengths[:-1], lengths[1:] + 2.0 * lengths[:-1]
    safe_before, safe_after = np.where(same_way, before, 1.0), np.where(same_way, after, 1.0)
    mean = (w1 + w2) / (w1 / safe_before + w2 / safe_after)
    slopes[1:-1] = np.where(same_way, mean, 0.0)

    index = np.clip(np.searchsorted(knots, at, side='right') - 1, 0, len(knots) - 2)
    length = lengths[index]
    u = (at[:, None] - knots[index, None]) / length
    rise = points[index + 1] - points[index]
    c2 = 3.0 * rise - length * (2.0 * slopes[index] + slopes[index + 1])
    c3 = -2.0 * rise + length * (slopes[index] + slopes[index + 1])
    return points[index] + u * (length * slopes[index] + u * (c2 + u * c3))
