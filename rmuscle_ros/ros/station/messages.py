"""Messages of the simulated station: what it publishes, and the trajectories it takes."""

from __future__ import annotations

import array
from collections.abc import Sequence

import numpy as np
from sensor_msgs.msg import Image, JointState
from trajectory_msgs.msg import JointTrajectory

from rmuscle_ros.msg import EpisodeResult
from rmuscle_ros.ros.conversions import to_seconds, to_time
from rmuscle_ros.ros.station.episode import Outcome
from rmuscle_ros.sim.trajectory import JointTrajectoryCommand


def image_message(camera: str, time_s: float, image: np.ndarray) -> Image:
    """uint8 [H, W, 3] -> rgb8, in the frame named like the camera."""
    height, width, _ = image.shape
    message = Image(height=height, width=width, encoding='rgb8', step=3 * width)
    message.header.stamp = to_time(time_s)
    message.header.frame_id = camera
    # An array of bytes is taken over as it is; a list would be checked element by element.
    message.data = array.array('B', image.tobytes())
    return message


def joint_state_message(
    names: Sequence[str], time_s: float, positions: np.ndarray, velocities: np.ndarray
) -> JointState:
    """Positions and velocities [J], rad and rad/s (m and m/s for a gripper's finger)."""
    message = JointState(name=list(names))
    message.header.stamp = to_time(time_s)
    message.position = array.array('d', positions)
    message.velocity = array.array('d', velocities)
    return message


def result_message(task: str, time_s: float, outcome: Outcome) -> EpisodeResult:
    """How an episode ended."""
    message = EpisodeResult(
        seed=outcome.seed,
        task=task,
        success=outcome.success,
        max_reward=outcome.max_reward,
        steps=outcome.steps,
    )
    message.header.stamp = to_time(time_s)
    return message


def trajectory_command(message: JointTrajectory) -> JointTrajectoryCommand:
    """A trajectory as the follower takes it; TrajectoryError for a point of the wrong size."""
    return JointTrajectoryCommand.from_points(
        joint_names=message.joint_names,
        stamp_s=to_seconds(message.header.stamp),
        times_from_start_s=[to_seconds(point.time_from_start) for point in message.points],
        positions=[point.positions for point in message.points],
        velocities=[point.velocities for point in message.points],
    )
