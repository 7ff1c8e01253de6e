"""Which ROS is used: one whose set-up script is sourced, or the wheels from the package index."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provision.interpreter import Interpreter, on_path, probe
from provision.report import StepError

WHEEL_DISTROS = ('jazzy', 'kilted')
# Set by an outer make, colcon workspace or environment; each would change what we build.
_FOREIGN = (
    'MAKEFLAGS',
    'MFLAGS',
    'MAKELEVEL',
    'PYTHONHOME',
    'VIRTUAL_ENV',
    'COLCON_CURRENT_PREFIX',
    '_ROS_WHEELS_BOOTSTRAP_COMPLETE',
)
_SEARCH_PATHS = (
    'AMENT_PREFIX_PATH',
    'CMAKE_PREFIX_PATH',
    'COLCON_PREFIX_PATH',
    'LD_LIBRARY_PATH',
    'PKG_CONFIG_PATH',
    'PYTHONPATH',
)


@dataclass(frozen=True)
class Ros:
    """The ROS to build against. ``python`` is set for a sourced ROS: its own interpreter."""

    distro: str
    python: Interpreter | None = None

    @property
    def sourced(self) -> bool:
        return self.python is not None

    @property
    def identity(self) -> str:
        """Differs whenever an environment made for one ROS does not fit the other."""
        return f'sourced {self.distro} {self.python.rclpy}' if self.python else self.distro

    def __str__(self) -> str:
        return f'ROS 2 {self.distro.capitalize()} ({"sourced" if self.sourced else "wheels"})'


def clean_environment(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without this checkout's own environment and overlay, which may be active."""
    env = {name: value for name, value in environ.items() if name not in _FOREIGN}
    own = tuple(f'{root / name}' for name in ('.venv', 'install', 'build'))
    for name in ('PATH', *_SEARCH_PATHS):
        if name in env:
            parts = env[name].split(os.pathsep)
            kept = [part for part in parts if part and not part.startswith(own)]
            env[name] = os.pathsep.join(kept)
            if not kept:
                del env[name]
    return env


def choose_ros(env: Mapping[str, str], remembered: str | None) -> Ros:
    """The sourced ROS if there is one, else the wheels of ROS_DISTRO.

    env: from :func:`clean_environment`. remembered: the identity the environment was made for; it
    is kept when this shell says nothing else.
    """
    wish = env.get('ROS_DISTRO')
    if env.get('AMENT_PREFIX_PATH'):
        path = next(on_path('python3', env.get('PATH', '')), None)
        python = probe(path, env) if path else None
        if python and python.rclpy:
            return Ros(wish or 'unknown', python)
    if remembered and remembered.startswith('sourced '):
        raise StepError(
            f'.venv was made for another ROS ({remembered}), and this shell has none sourced.',
            'Source it again (`source /opt/ros/<distro>/setup.bash`), or run `make clean` to '
            'start over with the wheels.',
        )
    distro = wish or remembered or WHEEL_DISTROS[0]
    if distro not in WHEEL_DISTROS:
        raise StepError(
            f'ROS_DISTRO is {distro}, no such ROS is sourced (its rclpy is not importable), and '
            f'wheels exist for {" and ".join(WHEEL_DISTROS)} only.',
            f'Source it (`source /opt/ros/{distro}/setup.bash`), or use '
            f'`make setup ROS_DISTRO={WHEEL_DISTROS[0]}`.',
        )
    if (platform.system(), platform.machine()) != ('Linux', 'x86_64'):
        raise StepError(
            f'no ROS is sourced, and its wheels exist for Linux on x86_64 only; this is '
            f'{platform.system()} on {platform.machine()}.',
            'Install ROS 2 Jazzy with apt-get, `source /opt/ros/jazzy/setup.bash`, and run this '
            'again.',
        )
    return Ros(distro)


def build_environment(ros: Ros, venv: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The variables pip, CMake and colcon run with."""
    built = dict(env)
    built['PATH'] = f'{venv / "bin"}{os.pathsep}{env.get("PATH", os.defpath)}'
    if not ros.sourced:
        for name in _SEARCH_PATHS:
            built.pop(name, None)
        built['AMENT_PREFIX_PATH'] = built['CMAKE_PREFIX_PATH'] = str(venv)
        built['LD_LIBRARY_PATH'] = str(venv / 'lib')
        built['ROS_DISTRO'] = ros.distro
    return built
