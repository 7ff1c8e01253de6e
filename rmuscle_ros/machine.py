"""Which software and which machine produced a run. ``None`` means not installed or not found."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import rmuscle_ros

PACKAGES = ('torch', 'numpy', 'mujoco', 'dm_control', 'gym-aloha', 'matplotlib')
ROS_PACKAGES = ('rclpy', 'ros-jazzy-rclpy', 'ros-kilted-rclpy')


def versions() -> dict[str, str | None]:
    """Version of everything that can change a result, read without importing any of it."""
    found: dict[str, str | None] = {
        'rmuscle_ros': rmuscle_ros.__version__,
        'python': platform.python_version(),
    }
    found.update({name: _version(name) for name in PACKAGES})
    found['ros_distro'] = os.environ.get('ROS_DISTRO') or None
    found['rclpy'] = next(filter(None, map(_version, ROS_PACKAGES)), None)
    found['rmw'] = os.environ.get('RMW_IMPLEMENTATION') or None
    return found


def machine() -> dict[str, Any]:
    """CPU, cores this process may use, memory, operating system and GPUs."""
    return {
        'cpu': _cpu_model(),
        'cores': _usable_cores(),
        'memory_gib': _memory_gib(),
        'os': _os_name(),
        'kernel': platform.release() or None,
        'gpu': _gpu(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    """Name of the processor; ARM boards tell it in the device tree rather than in cpuinfo."""
    fields = _key_values(Path('/proc/cpuinfo'), ':')
    board = _read(Path('/proc/device-tree/model')).strip('\0\n ')
    return fields.get('model name') or board or platform.processor() or None


def _usable_cores() -> int | None:
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory_gib() -> float | None:
    total = _key_values(Path('/proc/meminfo'), ':').get('MemTotal', '').removesuffix(' kB')
    return round(int(total) / 2**20, 1) if total.isdigit() else None


def _os_name() -> str | None:
    fields = _key_values(Path('/etc/os-release'), '=')
    return fields.get('PRETTY_NAME', '').strip('"') or platform.system() or None


def _gpu() -> str | None:
    """Name and driver of the NVIDIA GPUs; None when there is none or it cannot be asked."""
    tool = shutil.which('nvidia-smi')
    if tool is None:
        return None
    query = [tool, '--query-gpu=name,driver_version', '--format=csv,noheader']
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    return '; '.join(lines) if answer.returncode == 0 and lines else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors='replace')
    except OSError:
        return ''


def _key_values(path: Path, separator: str) -> dict[str, str]:
    """The first value of each key of a ``key<separator>value`` file; {} when it is not there."""
    found: dict[str, str] = {}
    for line in _read(path).splitlines():
        key, _, value = line.partition(separator)
        found.setdefault(key.strip(), value.strip())
    return found
