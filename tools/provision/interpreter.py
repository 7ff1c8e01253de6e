"""Find a Python that works, by running it: a shim in PATH may point at nothing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from provision.report import StepError

# In order of preference; the lock files are resolved for both.
SUPPORTED = ((3, 11), (3, 12))
PROBE_TIMEOUT_S = 20.0
_PROBE = """
import json, os, sys, sysconfig
from importlib.util import find_spec
rclpy = find_spec('rclpy')
include = sysconfig.get_path('include')
print(json.dumps({
    'path': sys.executable,
    'version': sys.version.split()[0],
    'include': include,
    'headers': os.path.exists(os.path.join(include, 'Python.h')),
    'ensurepip': find_spec('ensurepip') is not None and find_spec('venv') is not None,
    'rclpy': rclpy.origin if rclpy else None,
    'provides': [name for name in ('numpy', 'pytest', 'torch') if find_spec(name)],
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that ran.

    rclpy: where it finds ROS' client library, if it does. provides: which of the packages that a
    ROS install is built against it has (numpy, pytest, torch).
    """

    path: str
    version: str
    include: str
    headers: bool
    ensurepip: bool
    rclpy: str | None
    provides: list[str]

    @property
    def release(self) -> tuple[int, int]:
        major, minor, *_ = self.version.split('.')
        return int(major), int(minor)

    @property
    def complete(self) -> bool:
        """It can make a virtual environment and compile extensions."""
        return self.headers and self.ensurepip

    @property
    def from_system(self) -> bool:
        """It belongs to the distribution, so apt-get can complete it."""
        return self.path.startswith('/usr/bin/')


def probe(path: str, env: Mapping[str, str] | None = None) -> Interpreter | None:
    """Run ``path``; None if it does not work."""
    try:
        done = subprocess.run(
            [path, '-c', _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            env=env,
            check=True,
        )
        return Interpreter(**json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def on_path(name: str, search_path: str) -> Iterator[str]:
    """Every executable ``name`` in ``search_path``, not only the first."""
    for folder in search_path.split(os.pathsep):
        candidate = os.path.join(folder or '.', name)
        # os.path, since Path.is_file() raises for a folder that may not be read.
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            yield candidate


def choose(wish: str | None, search_path: str) -> Interpreter:
    """The interpreter for the environment: ``wish`` if given, else the first supported one.

    A complete one is preferred over one that apt-get would have to complete.
    """
    if wish:
        return _wished(wish, search_path)
    usable = []
    for release in SUPPORTED:
        for name in ('python{}.{}'.format(*release), 'python3'):
            for path in on_path(name, search_path):
                found = probe(path)
                if found is None or found.release != release:
                    continue
                if found.complete:
                    return found
                usable.append(found)
    for found in usable:
        if found.from_system:
            return found
    if usable:
        raise _incomplete(usable[0])
    raise StepError(
        'no working Python 3.11 or 3.12 in PATH.',
        'Debian 12: `apt-get install python3 python3-venv python3-dev` brings 3.11 (Ubuntu 24.04: '
        '3.12). Or name one: `make setup PYTHON=/path/to/python3.11`.',
    )


def _wished(wish: str, search_path: str) -> Interpreter:
    path = wish if os.sep in wish else next(on_path(wish, search_path), wish)
    found = probe(path)
    if found is None:
        raise StepError(f'PYTHON={wish} does not run.', 'Name a Python that works.')
    if found.release not in SUPPORTED:
        raise StepError(
            f'PYTHON={wish} is {found.version}, and the pinned versions are for 3.11 and 3.12.',
            'Name a Python 3.11 or 3.12, or leave PYTHON out.',
        )
    if not found.complete and not found.from_system:
        raise _incomplete(found)
    return found


def _incomplete(found: Interpreter) -> StepError:
    lacks = 'its C headers (Python.h)' if not found.headers else 'the modules venv and ensurepip'
    return StepError(
        f'{found.path} (Python {found.version}) lacks {lacks}.',
        'Install a whole Python 3.11 or 3.12, e.g. `apt-get install python3 python3-venv '
        'python3-dev`, or name one: `make setup PYTHON=/path/to/python3.11`.',
    )
