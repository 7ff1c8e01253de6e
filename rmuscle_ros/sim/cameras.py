"""The station's three cameras and their off-screen renderer. Imports mujoco."""

from __future__ import annotations

import atexit
import threading
import weakref
from dataclasses import dataclass

import mujoco
import numpy as np

from rmuscle_ros.errors import SetupError
from rmuscle_ros.sim.simulator import EGL_HINT

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class CameraView:
    """A camera fixed to ``body``, at ``position`` looking at ``target`` (metres, its frame)."""

    body: str
    position: Vector
    target: Vector
    fovy_deg: float


def _wrist(side: str) -> CameraView:
    return CameraView(
        f'vx300s_{side}/gripper_link',
        position=(0.02, 0.0, 0.14),
        target=(0.16, 0.0, 0.0),
        fovy_deg=60.0,
    )


# cam_high looks down by 48 degrees from the front and frames what the tasks need: the cube's
# range, the meeting point and both grippers near them. The cube is 9 to 11 pixels wide in a
# picture of 96; a view of the whole table leaves 3, which a small policy cannot localise.
VIEWS = {
    'cam_high': CameraView('world', (0.07, -0.303, 0.987), (0.07, 0.5, 0.095), fovy_deg=19.0),
    'cam_left_wrist': _wrist('left'),
    'cam_right_wrist': _wrist('right'),
}
NEAR_PLANE_M = 0.01
# Rendered this much larger and averaged: half the cost of OpenGL's multisampling on a CPU.
SUPERSAMPLING = 2


def add_cameras(spec: mujoco.MjSpec) -> None:
    """Add ``VIEWS`` to a model before it is compiled. Nothing of its physics changes."""
    for name, view in VIEWS.items():
        camera = spec.body(view.body).add_camera(name=name, pos=view.position, fovy=view.fovy_deg)
        camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
        camera.alt.xyaxes = _look_at(view.position, view.target)


def _look_at(position: Vector, target: Vector) -> np.ndarray:
    """Image axes (right, up) of a camera that keeps its body's z axis upright: float64 [6]."""
    backward = np.subtract(position, target)
    right = np.cross((0.0, 0.0, 1.0), backward)
    up = np.cross(backward, right)
    return np.concatenate([right, up])


class CameraRenderer:
    """Renders ``VIEWS`` off-screen, without shadows and reflections (they cost ten times more).

    An OpenGL context belongs to one thread: create, use and close a renderer in the same one.
    Using it from another raises SetupError.
    """

    def __init__(self, model: mujoco.MjModel, height: int, width: int) -> None:
        self._thread = threading.get_ident()
        self._closed = False
        large_height, large_width = SUPERSAMPLING * height, SUPERSAMPLING * width
        model.vis.global_.offheight = max(model.vis.global_.offheight, large_height)
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, large_width)
        model.vis.quality.offsamples = 0
        model.vis.map.znear = NEAR_PLANE_M / model.stat.extent
        try:
            self._renderer = mujoco.Renderer(model, large_height, large_width)
        except Exception as error:  # each backend has its own exceptions
            raise SetupError(f'no off-screen rendering ({error!r}). {EGL_HINT}') from error
        # An open context at interpreter exit prints tracebacks, as EGL is gone before it.
        atexit.register(_close_at_exit, weakref.ref(self._renderer))
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False

    def render(self, data: mujoco.MjData) -> dict[str, np.ndarray]:
        """Camera name -> new uint8 [H, W, 3], RGB, of the state in ``data``."""
        self._check_usable()
        images = {}
        for name in VIEWS:
            self._renderer.update_scene(data, name)
            images[name] = _average_blocks(self._renderer.render(), SUPERSAMPLING)
        return images

    def close(self) -> None:
        """Free the OpenGL context. A second call does nothing."""
        if not self._closed:
            self._check_usable()
            self._renderer.close()
            self._closed = True

    def _check_usable(self) -> None:
        if self._closed:
            raise SetupError('the renderer is closed; create a new station to render again')
        if threading.get_ident() != self._thread:
            raise SetupError(
                f'rendering from thread {threading.current_thread().name!r}, but the OpenGL '
                'context belongs to the thread that created the station; create, render and '
                'close it in one thread'
            )


def _close_at_exit(reference: weakref.ref[mujoco.Renderer]) -> None:
    renderer = reference()
    if renderer is not None:
        renderer.close()


def _average_blocks(image: np.ndarray, size: int) -> np.ndarray:
    """Mean over ``size`` x ``size`` blocks of pixels: uint8 [size H, size W, 3] -> [H, W, 3]."""
    total = np.zeros((image.shape[0] // size, image.shape[1] // size, 3), np.uint16)
    for row in range(size):
        for column in range(size):
            total += image[row::size, column::size]
    return ((total + size * size // 2) // (size * size)).astype(np.uint8)
