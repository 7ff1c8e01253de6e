"""What ros2's joint_trajectory_controller accepts, and how it moves. Numpy only.

Rules and interpolation follow ros-controls/ros2_controllers, branch jazzy (4.x),
``joint_trajectory_controller/src``, in its default settings except
``interpolate_from_desired_state: true``, which its documentation asks for when a reference
arrives in many messages. Where this follower is stricter, its docstring says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.errors import TrajectoryError

FLOAT32_EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class JointTrajectoryCommand:
    """A trajectory_msgs/JointTrajectory without ROS: N points for J named joints.

    stamp_s: when ``times_from_start_s`` = 0 is, on the controller's clock; 0 means on arrival.
    positions: [N, J], rad (m for a gripper's finger).
    times_from_start_s: [N].
    velocities: [N, J] per second, or None; with velocities the interpolation is cubic.
    """

    joint_names: Sequence[str]
    stamp_s: float
    positions: np.ndarray
    times_from_start_s: np.ndarray
    velocities: np.ndarray | None = None

    @classmethod
    def from_points(
        cls,
        joint_names: Sequence[str],
        stamp_s: float,
        times_from_start_s: Sequence[float],
        positions: Sequence[Sequence[float]],
        velocities: Sequence[Sequence[float]] = (),
    ) -> JointTrajectoryCommand:
        """A command from per-point lists, as messages have them: N lists, J numbers in each.

        Raises TrajectoryError for a point whose size is not J. Velocities may be empty in all
        points; JTC would also take them in some points only.
        """
        names = tuple(joint_names)
        given = any(len(point) > 0 for point in velocities)
        for field, points in (
            ('positions', positions),
            ('velocities', velocities if given else ()),
        ):
            for index, point in enumerate(points):
                if len(point) != len(names):
                    raise TrajectoryError(
                        f'{field}: found {len(point)} values at point {index}, expected '
                        f'{len(names)}, one per joint name'
                    )
        return cls(
            joint_names=names,
            stamp_s=stamp_s,
            positions=np.array(positions, np.float64).reshape(len(positions), len(names)),
            times_from_start_s=np.array(times_from_start_s, np.float64),
            velocities=np.array(velocities, np.float64) if given else None,
        )


@dataclass(frozen=True)
class _Knot:
    """A commanded state. No velocities: the segments beside it are linear."""

    time_s: float
    positions: np.ndarray
    velocities: np.ndarray | None


class TrajectoryFollower:
    """Turns trajectory commands into the positions commanded at any time, as JTC does.

    A new trajectory replaces the running one at once, without splicing, even if it starts in the
    future: the arm then moves from the position commanded when it was accepted straight to the
    new first point (``Trajectory::sample``, "current time hasn't reached traj time of the first
    point"). A start that has passed already is entered where it is now, without blending. After
    the last point the arm holds it.

    JTC commands at each cycle the set-point of the next one: a caller with period p samples at
    ``now + p`` and then steps the physics by p. Not thread-safe.

    joint_names: the controller's joints; positions come back in this order.
    home: [J], commanded until the first trajectory is accepted.
    """

    def __init__(self, joint_names: Sequence[str], home: np.ndarray) -> None:
        self._joint_names = tuple(joint_names)
        home = np.array(home, np.float64)
        if home.shape != (len(self._joint_names),):
            raise TrajectoryError(
                f'home: found shape {home.shape}, expected ({len(self._joint_names)},), one '
                'position per joint'
            )
        self._before = _Knot(-np.inf, home, np.zeros_like(home))
        self._knots: list[_Knot] = []

    def accept(self, command: JointTrajectoryCommand, now_s: float) -> None:
        """Follow ``command`` from now on, or raise TrajectoryError with the rule it breaks.

        A refused command changes nothing: the running trajectory goes on.
        """
        check_command(command, self._joint_names, now_s)
        names = list(command.joint_names)
        order = [names.index(name) for name in self._joint_names]
        start_s = command.stamp_s if command.stamp_s != 0.0 else now_s
        times_s = start_s + np.asarray(command.times_from_start_s, np.float64)
        positions = np.asarray(command.positions, np.float64)[:, order]
        velocities: Sequence[np.ndarray | None] = [None] * len(times_s)
        if command.velocities is not None:
            velocities = list(np.asarray(command.velocities, np.float64)[:, order])
        self._before = self._state(now_s)
        self._knots = [
            _Knot(float(time_s), *state)
            for time_s, *state in zip(times_s, positions, velocities, strict=True)
        ]

    def sample(self, now_s: float) -> np.ndarray:
        """The commanded positions at ``now_s``: new float64 [J]."""
        return self._state(now_s).positions.copy()

    def hold(self, now_s: float) -> None:
        """Drop the running trajectory and stay at the position commanded now.

        JTC's ``set_hold_position`` takes the measured position instead; the commanded one does
        not sag.
        """
        positions = self._state(now_s).positions
        self._before = _Knot(now_s, positions, np.zeros_like(positions))
        self._knots = []

    def active(self, now_s: float) -> bool:
        """Whether a trajectory is accepted whose last point lies after ``now_s``."""
        return bool(self._knots) and now_s < self._knots[-1].time_s

    def _state(self, now_s: float) -> _Knot:
        if not self._knots or now_s < self._before.time_s:
            return self._at_rest(self._before, now_s)
        if now_s >= self._knots[-1].time_s:
            return self._at_rest(self._knots[-1], now_s)
        if now_s < self._knots[0].time_s:
            return _interpolate(self._before, self._knots[0], now_s)
        times_s = [knot.time_s for knot in self._knots]
        index = int(np.searchsorted(times_s, now_s, side='right'))
        return _interpolate(self._knots[index - 1], self._knots[index], now_s)

    @staticmethod
    def _at_rest(knot: _Knot, now_s: float) -> _Knot:
        return _Knot(now_s, knot.positions, np.zeros_like(knot.positions))


def _interpolate(a: _Knot, b: _Knot, now_s: float) -> _Knot:
    """The state between two knots: linear, or cubic where both have velocities.

    (``Trajectory::interpolate_between_points``; the state before a trajectory always has
    velocities, so the first point decides about its segment.)
    """
    length_s = b.time_s - a.time_s
    t = now_s - a.time_s
    rise = b.positions - a.positions
    if a.velocities is None or b.velocities is None:
        slope = rise / length_s
        return _Knot(now_s, a.positions + slope * t, slope)
    c2 = (3.0 * rise / length_s - 2.0 * a.velocities - b.velocities) / length_s
    c3 = (-2.0 * rise / length_s + a.velocities + b.velocities) / length_s**2
    positions = a.positions + t * (a.velocities + t * (c2 + t * c3))
    return _Knot(now_s, positions, a.velocities + t * (2.0 * c2 + 3.0 * t * c3))


def check_command(
    command: JointTrajectoryCommand, joint_names: Sequence[str], now_s: float
) -> None:
    """Raise TrajectoryError with the first rule ``command`` breaks.

    The rules are those of ``JointTrajectoryController::validate_trajectory_msg``. Two are
    stricter: JTC lets values that are not finite and repeated joint names through.
    """
    _check_joints(command, joint_names)
    _check_sizes(command)
    _check_finite(command)
    _check_times(command, now_s)
    _check_end_velocity(command)


def _check_joints(command: JointTrajectoryCommand, joint_names: Sequence[str]) -> None:
    found, expected = list(command.joint_names), list(joint_names)
    if not found:
        raise TrajectoryError(f'no joint names; expected {", ".join(expected)}')
    for name in found:
        if name not in expected:
            raise TrajectoryError(f'unknown joint {name!r}; expected {", ".join(expected)}')
        if found.count(name) > 1:
            raise TrajectoryError(
                f'joint {name!r} is named {found.count(name)} times; name it once'
            )
    missing = [name for name in expected if name not in found]
    if missing:
        raise TrajectoryError(
            f'missing joint {", ".join(missing)}; a trajectory must name all {len(expected)} '
            'joints (allow_partial_joints_goal is false)'
        )


def _check_sizes(command: JointTrajectoryCommand) -> None:
    points, joints = np.size(command.times_from_start_s), len(command.joint_names)
    if points == 0 or np.size(command.positions) == 0:
        raise TrajectoryError('no points; expected at least one point with positions')
    fields = {
        'times_from_start_s': (command.times_from_start_s, (points,)),
        'positions': (command.positions, (points, joints)),
        'velocities': (command.velocities, (points, joints)),
    }
    for name, (values, shape) in fields.items():
        if values is not None and np.shape(values) != shape:
            raise TrajectoryError(
                f'{name}: found shape {np.shape(values)}, expected {shape} for {points} points '
                f'and {joints} joint names'
            )


def _check_finite(command: JointTrajectoryCommand) -> None:
    for name in ('stamp_s', 'times_from_start_s', 'positions', 'velocities'):
        values = getattr(command, name)
        if values is not None and not np.all(np.isfinite(values)):
            point = int(np.argwhere(~np.isfinite(np.atleast_1d(values)))[0][0])
            raise TrajectoryError(
                f'{name}: found a value that is not finite at point {point}; expected numbers'
            )


def _check_times(command: JointTrajectoryCommand, now_s: float) -> None:
    times_s = np.asarray(command.times_from_start_s, np.float64)
    for index in np.flatnonzero(np.diff(times_s) <= 0.0)[:1]:
        raise TrajectoryError(
            f'time_from_start is not strictly increasing: {times_s[index]:g} s at point {index}, '
            f'{times_s[index + 1]:g} s at point {index + 1}'
        )
    end_s = command.stamp_s + times_s[-1]
    if command.stamp_s != 0.0 and end_s < now_s:
        raise TrajectoryError(
            f'the trajectory (stamp {command.stamp_s:g} s) ended {now_s - end_s:.3f} s ago; '
            'expected a last point in the future, or stamp 0 to start on arrival'
        )


def _check_end_velocity(command: JointTrajectoryCommand) -> None:
    if command.velocities is None:
        return
    for name, velocity in zip(command.joint_names, command.velocities[-1], strict=True):
        if abs(velocity) > FLOAT32_EPSILON:
            raise TrajectoryError(
                f'velocity of the last point is {velocity:g} for {name}; expected 0 '
                '(allow_nonzero_velocity_at_trajectory_end is false)'
            )
