"""The station's cameras for another thread than the one that steps its physics."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from rmuscle_ros.sim.simulator import load_scene


class DetachedCameras:
    """Draws states of a station (``AlohaStation.scene_positions``) on a copy of its scene.

    An OpenGL context belongs to one thread: create, use and close it in the same one.
    image_size: height and width of the pictures in pixels.
    Raises SetupError without MuJoCo, gym-aloha or EGL.
    """

    def __init__(self, image_size: int) -> None:
        scene = load_scene()
        self._mujoco = scene.mujoco
        self._model = scene.compile_model()
        self._data = self._mujoco.MjData(self._model)
        self._renderer = scene.CameraRenderer(self._model, image_size, image_size)

    def render(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Camera name -> new uint8 [H, W, 3], RGB, of the scene at ``positions``."""
        self._data.qpos[:] = positions
        self._mujoco.mj_kinematics(self._model, self._data)
        self._mujoco.mj_camlight(self._model, self._data)
        return self._renderer.render(self._data)

    def close(self) -> None:
        """Free the OpenGL context; in the thread that created it."""
        self._renderer.close()

    def __enter__(self) -> DetachedCameras:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
