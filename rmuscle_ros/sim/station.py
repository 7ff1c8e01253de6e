"""The simulated ALOHA station: joint targets in, joint state, pictures and reward out."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from rmuscle_ros.errors import ConfigError, RmuscleError, TrajectoryError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.simulator import load_scene
from rmuscle_ros.sim.tasks import SuccessJudge, find_task

MAX_IMAGE_SIZE = 2048
MAX_SEED = 2**32 - 1


class AlohaStation:
    """Two ViperX arms, a table, a red cube and three cameras, stepped at 50 Hz.

    The physics, the cube's place for a seed and the reward are gym-aloha's own (``sim.scene``).
    Everything is deterministic: the same seed and targets give the same states, bit for bit.

    Targets outside an actuator's range (``aloha.LOWER``, ``aloha.UPPER``) are passed on as they
    are, as ros2's joint_trajectory_controller passes on positions without clipping; the actuator
    then goes to its limit, as a servo does (MuJoCo's ``ctrlrange``).

    Not thread-safe, and pictures belong to a thread: an OpenGL context can only be used where it
    was created, so create, render and close a station in one thread (SetupError otherwise).

    image_size: height and width of the pictures in pixels.
    task: a name in ``tasks.TASKS``; it chooses the instruction and when ``success`` is true.
    Raises ConfigError for an unknown task or size, SetupError without MuJoCo, gym-aloha or EGL.
    """

    JOINT_NAMES = aloha.JOINT_NAMES
    CAMERAS = aloha.CAMERAS
    CONTROL_PERIOD_S = aloha.CONTROL_PERIOD_S

    def __init__(self, image_size: int = 96, task: str = 'transfer_cube') -> None:
        if type(image_size) is not int or not 1 <= image_size <= MAX_IMAGE_SIZE:
            raise ConfigError(
                f'image_size: found {image_size!r}, expected a whole number of pixels from 1 to '
                f'{MAX_IMAGE_SIZE}'
            )
        self.image_size = image_size
        self.task = find_task(task)
        scene = load_scene()
        self._scene = scene.Scene()
        self._renderer = scene.CameraRenderer(
            self._scene.physics.model.ptr, image_size, image_size
        )
        self._judge: SuccessJudge | None = None
        self._reward = 0
        self._steps = 0

    def reset(self, seed: int) -> None:
        """Start an episode: arms home and still, the cube where gym-aloha puts it for ``seed``."""
        if not isinstance(seed, (int, np.integer)) or not 0 <= seed <= MAX_SEED:
            raise ConfigError(
                f'seed: found {seed!r}, expected a whole number from 0 to {MAX_SEED}'
            )
        self._reward = self._scene.reset(int(seed))
        self._steps = 0
        self._judge = SuccessJudge(self.task)

    def step(self, targets: np.ndarray) -> None:
        """Drive all joints towards ``targets`` for one control period (20 ms).

        targets: [14] in the order of ``JOINT_NAMES``, rad; m for a gripper's finger.
        Raises TrajectoryError when the shape is another or a value is not finite; nothing has
        moved then.
        """
        judge = self._episode()
        targets = np.asarray(targets, np.float64)
        if targets.shape != (len(self.JOINT_NAMES),):
            raise TrajectoryError(
                f'targets: found shape {targets.shape}, expected ({len(self.JOINT_NAMES)},), one '
                f'per joint: {", ".join(self.JOINT_NAMES)}'
            )
        for name, value in zip(self.JOINT_NAMES, targets, strict=True):
            if not np.isfinite(value):
                raise TrajectoryError(
                    f'targets: found {value} for {name}, expected a finite value'
                )
        self._reward = self._scene.step(targets)
        self._steps += 1
        judge.observe(self._reward)

    def joint_positions(self) -> np.ndarray:
        """float64 [14]: rad; m for a gripper's finger (0.021 closed to 0.057 open)."""
        self._episode()
        return self._scene.joint_positions()

    def joint_velocities(self) -> np.ndarray:
        """float64 [14]: rad/s; m/s for a gripper's finger."""
        self._episode()
        return self._scene.joint_velocities()

    def cube_position(self) -> np.ndarray:
        """float64 [3]: centre of the cube in the world, m. For experts and tests, not policies."""
        self._episode()
        return self._scene.cube_position()

    def scene_positions(self) -> np.ndarray:
        """All positions of the scene, arms, fingers and cube: what ``DetachedCameras`` draws."""
        self._episode()
        return self._scene.physics.data.qpos.copy()

    def render(self) -> dict[str, np.ndarray]:
        """Camera name -> uint8 [image_size, image_size, 3], RGB, of the present state."""
        self._episode()
        return self._renderer.render(self._scene.physics.data.ptr)

    @property
    def reward(self) -> int:
        """gym-aloha's reward (0 to 4) after the last step."""
        self._episode()
        return self._reward

    @property
    def max_reward(self) -> int:
        """The highest reward of the episode so far."""
        return self._episode().max_reward

    @property
    def success(self) -> bool:
        """Whether the task counts as done now, by the rule in ``tasks.TASKS``."""
        return self._episode().success

    @property
    def steps(self) -> int:
        """Control steps since reset."""
        return self._steps

    @property
    def time_s(self) -> float:
        """Simulated time since reset."""
        return self._steps * self.CONTROL_PERIOD_S

    def close(self) -> None:
        """Free the OpenGL context; in the thread that created the station."""
        self._renderer.close()

    def _episode(self) -> SuccessJudge:
        if self._judge is None:
            raise RmuscleError('the station has no episode yet; call reset(seed) first')
        return self._judge

    def __enter__(self) -> AlohaStation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
