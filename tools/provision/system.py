"""What the distribution must provide: a compiler, make, Python's headers, EGL."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.interpreter import Interpreter
from provision.report import Progress, StepError, run_logged

# Software rendering without a screen, in the order apt-get is told.
EGL_PACKAGES = ('libegl1', 'libegl-mesa0', 'libgl1-mesa-dri', 'libgles2')
_EGL_LIBRARIES = ('libEGL.so.1', 'libGLESv2.so.2')
_SOFTWARE_DRIVERS = ('*/dri/swrast_dri.so', '*/libgallium-*.so', 'dri/swrast_dri.so')


@dataclass(frozen=True)
class Missing:
    """Something absent, and the Debian/Ubuntu packages that bring it."""

    what: str
    packages: tuple[str, ...]


def missing_packages(python: Interpreter | None, env: Mapping[str, str]) -> list[Missing]:
    """What is absent. ``python``: the interpreter to make the environment with, if that is due."""
    search_path = env.get('PATH', os.defpath)
    found = []
    compilers = (env.get('CXX'), 'c++', 'g++', 'clang++')
    if not any(name and shutil.which(name, path=search_path) for name in compilers):
        found.append(Missing('a C++ compiler', ('g++',)))
    if not shutil.which('make', path=search_path):
        found.append(Missing('make', ('make',)))
    if python and not python.ensurepip:
        name = 'python{}.{}-venv'.format(*python.release)
        found.append(Missing("Python's venv and ensurepip", (name,)))
    if python and not python.headers:
        name = 'python{}.{}-dev'.format(*python.release)
        found.append(Missing("Python's C headers", (name,)))
    if not has_egl():
        found.append(Missing('EGL with a driver', EGL_PACKAGES))
    return found


def has_egl() -> bool:
    """True if libEGL and GLES load and a driver for them is there."""
    if not all(_loads(name) for name in _EGL_LIBRARIES):
        return False
    if _loads('libEGL_nvidia.so.0'):
        return True
    folders = [Path('/usr/lib'), Path('/usr/lib64')]
    drivers = (
        path for folder in folders for glob in _SOFTWARE_DRIVERS for path in folder.glob(glob)
    )
    return _loads('libEGL_mesa.so.0') and any(drivers)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def install(missing: Sequence[Missing], log: Path, progress: Progress) -> None:
    """Install the packages with apt-get if that needs no password, else say how and stop."""
    packages = [name for item in missing for name in item.packages]
    why = f'missing: {", ".join(item.what for item in missing)}.'
    if not shutil.which('apt-get'):
        raise StepError(
            why, f'Install what Debian calls {" ".join(packages)}, then run this again.'
        )
    prefix = _root_prefix()
    if prefix is None:
        raise StepError(
            f'{why} Installing needs root (or sudo without a password).',
            f'sudo apt-get update && sudo apt-get install -y {" ".join(packages)}',
        )
    env = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}
    run_logged([*prefix, 'apt-get', 'update'], log, progress, env=env)
    command = [*prefix, 'apt-get', 'install', '-y', '--no-install-recommends', *packages]
    run_logged(command, log, progress, env=env)


def _root_prefix() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    if not shutil.which('sudo'):
        return None
    done = subprocess.run(['sudo', '-n', 'true'], capture_output=True)
    return ['sudo', '-n'] if done.returncode == 0 else None
