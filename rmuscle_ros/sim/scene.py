"""gym-aloha's transfer-cube scene and task, with our cameras. Imports the simulator.

Model, reset and reward are gym-aloha's own: its XML is read from the installed package and gets
cameras added in memory, its task runs in dm_control's Environment as in ``gym_aloha.env``. So the
physics agree bit for bit with gym-aloha's environment.
"""

from __future__ import annotations

from collections import OrderedDict

import mujoco
import numpy as np
from dm_control.mujoco import Physics, wrapper
from dm_control.rl import control
from gym_aloha.constants import ASSETS_DIR, DT
from gym_aloha.tasks import sim as gym_aloha_sim
from gym_aloha.utils import sample_box_pose

from rmuscle_ros.sim.cameras import CameraRenderer, add_cameras

__all__ = ['CameraRenderer', 'Scene', 'compile_model']

XML = ASSETS_DIR / 'bimanual_viperx_transfer_cube.xml'
# gym-aloha's 16 actuators and first 16 positions: per arm six joints, left and right finger.
JOINT_INDEX = np.array([*range(7), *range(8, 15)])
RIGHT_FINGERS = np.array([7, 15])
LEFT_FINGERS = np.array([6, 14])


def compile_model() -> mujoco.MjModel:
    """gym-aloha's scene with the station's cameras."""
    spec = mujoco.MjSpec.from_file(str(XML))
    add_cameras(spec)
    return spec.compile()


class _StationTask(gym_aloha_sim.TransferCubeTask):
    """gym-aloha's task, driven in radians and metres, without its pictures (100 ms each)."""

    def before_step(self, action: np.ndarray, physics: Physics) -> None:
        ctrl = np.empty(16)
        ctrl[JOINT_INDEX] = action
        ctrl[RIGHT_FINGERS] = -ctrl[LEFT_FINGERS]
        physics.set_control(ctrl)

    def get_observation(self, physics: Physics) -> OrderedDict:  # noqa: ARG002  dm_control's API
        return OrderedDict()


class Scene:
    """The running simulation: one environment of gym-aloha's transfer-cube task."""

    def __init__(self) -> None:
        self.physics = Physics.from_model(wrapper.MjModel(compile_model()))
        self._task = _StationTask()
        self._environment = control.Environment(
            self.physics, self._task, control_timestep=DT, flat_observation=False
        )

    def reset(self, seed: int) -> int:
        """Arms home, the cube where gym-aloha puts it for ``seed``; returns the reward.

        gym-aloha takes the cube's pose from a global: reset scenes from one thread at a time.
        """
        gym_aloha_sim.BOX_POSE[0] = sample_box_pose(seed)
        self._environment.reset()
        return self._task.get_reward(self.physics)

    def step(self, targets: np.ndarray) -> int:
        """One control period towards ``targets`` [14] (rad, m); returns gym-aloha's reward."""
        return self._environment.step(targets).reward

    def joint_positions(self) -> np.ndarray:
        return self.physics.data.qpos[JOINT_INDEX]

    def joint_velocities(self) -> np.ndarray:
        return self.physics.data.qvel[JOINT_INDEX]

    def cube_position(self) -> np.ndarray:
        return self.physics.data.qpos[16:19].copy()
