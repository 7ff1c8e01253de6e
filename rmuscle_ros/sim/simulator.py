"""Imports the simulator on demand, so that everything else loads on a machine without it."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from rmuscle_ros.errors import SetupError

EGL_HINT = (
    'Off-screen rendering needs EGL: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri '
    'libgles2, and run with MUJOCO_GL=egl set before anything imports mujoco.'
)


def load_scene() -> ModuleType:
    """The module ``rmuscle_ros.sim.scene``, or a SetupError that says what is missing.

    MuJoCo chooses its rendering backend once, when it is imported. On Linux its default wants a
    display, so MUJOCO_GL=egl is set here unless the caller has chosen otherwise.
    """
    if sys.platform == 'linux':
        os.environ.setdefault('MUJOCO_GL', 'egl')
    try:
        return importlib.import_module('rmuscle_ros.sim.scene')
    except ModuleNotFoundError as error:
        raise SetupError(
            f'the simulated station needs the Python module {error.name}, which is not '
            f'installed in {sys.executable}; run `make setup` in the checkout, or '
            '`pip install "rmuscle_ros[sim]"`'
        ) from error
    except Exception as error:  # PyOpenGL raises AttributeError and others without its libraries
        raise SetupError(f'the simulator cannot be loaded ({error!r}). {EGL_HINT}') from error
