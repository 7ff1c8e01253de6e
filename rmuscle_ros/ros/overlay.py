"""Find the built ROS overlay, so that commands need no sourced shell. Imports no ROS itself.

``python -m rmuscle_ros.ros.overlay COMMAND ...`` runs a command with the overlay sourced.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import rmuscle_ros
from rmuscle_ros.errors import RmuscleError, SetupError

PACKAGE = 'rmuscle_ros'
SOURCE_TIMEOUT_S = 60.0
# Set for the process that ensure_ros() starts, so that it never does so twice in a row.
_APPLIED = 'RMUSCLE_OVERLAY_APPLIED'
_WHAT_TO_DO = (
    'run `make setup` in the checkout, or source the setup.bash of your ROS 2 and of the colcon '
    'workspace that holds rmuscle_ros'
)


def missing_parts() -> list[str]:
    """What this process lacks to use ROS; empty when it is ready."""
    missing = [name for name in ('rclpy', f'{PACKAGE}.msg') if find_spec(name) is None]
    if overlay_prefix(os.environ.get('AMENT_PREFIX_PATH', '')) is None:
        missing.append(f'{PACKAGE} in AMENT_PREFIX_PATH')
    return missing


def overlay_prefix(ament_prefix_path: str) -> Path | None:
    """The first prefix of the path in which this package is installed."""
    for prefix in filter(None, ament_prefix_path.split(os.pathsep)):
        if Path(prefix, 'share', PACKAGE, 'package.xml').exists():
            return Path(prefix)
    return None


def find_setup_script() -> Path:
    """``install/setup.bash`` of the checkout this module runs from; SetupError without one."""
    # An overlay built with --symlink-install links back to the checkout.
    files = [Path(folder, '__init__.py').resolve() for folder in rmuscle_ros.__path__]
    roots = [file.parent.parent for file in files]
    for root in roots:
        script = root / 'install' / 'setup.bash'
        if script.exists() and (root / 'package.xml').exists():
            return script
    looked = ', '.join(str(root / 'install') for root in dict.fromkeys(roots))
    raise SetupError(f'no built overlay of {PACKAGE} in {looked}: {_WHAT_TO_DO}')


def ros_environment() -> dict[str, str]:
    """The environment in which ROS, our messages and our executables are found.

    For child processes. SetupError when there is no overlay or sourcing it fails.
    """
    env = dict(os.environ)
    if missing_parts():
        env = _sourced(find_setup_script(), env)
    env.pop(_APPLIED, None)
    # `#!/usr/bin/env python3` of the executables must be the interpreter that has our packages.
    _prepend(env, 'PATH', Path(sys.executable).parent)
    if Path(sys.prefix, 'share', 'ament_index').is_dir():
        # ROS from wheels: the virtual environment is the underlay.
        _append(env, 'AMENT_PREFIX_PATH', Path(sys.prefix))
    return env


def ensure_ros() -> None:
    """Return if ROS can be used here, else start this process anew with the overlay sourced.

    SetupError when there is no overlay, or when even that does not help.
    """
    missing = missing_parts()
    if not missing:
        os.environ.pop(_APPLIED, None)
        return
    if os.environ.get(_APPLIED):
        raise SetupError(
            f'{find_setup_script()} is sourced, and {", ".join(missing)} cannot be found by '
            f'{sys.executable}: {_WHAT_TO_DO}'
        )
    env = ros_environment() | {_APPLIED: '1'}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


def _sourced(script: Path, env: dict[str, str]) -> dict[str, str]:
    # Left by another workspace, it would make the script describe that one.
    env.pop('COLCON_CURRENT_PREFIX', None)
    command = ['bash', '-c', 'source "$0" >&2 && env -0', str(script)]
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, timeout=SOURCE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, 'stderr', None) or b''
        detail = output.decode(errors='replace').strip() or error
        raise SetupError(f'sourcing {script} failed ({detail}): {_WHAT_TO_DO}') from error
    entries = done.stdout.decode(errors='surrogateescape').split('\0')
    return dict(entry.split('=', 1) for entry in entries if '=' in entry)


def _prepend(env: dict[str, str], name: str, folder: Path) -> None:
    parts = [part for part in env.get(name, '').split(os.pathsep) if part and part != str(folder)]
    env[name] = os.pathsep.join([str(folder), *parts])


def _append(env: dict[str, str], name: str, folder: Path) -> None:
    parts = [part for part in env.get(name, '').split(os.pathsep) if part]
    if str(folder) not in parts:
        env[name] = os.pathsep.join([*parts, str(folder)])


def main() -> int:
    """Replace this process by the command given, with the overlay sourced."""
    command = sys.argv[1:]
    if not command:
        print('usage: python -m rmuscle_ros.ros.overlay COMMAND [ARGUMENT ...]', file=sys.stderr)
        return 2
    try:
        env = ros_environment()
    except RmuscleError as error:
        print(f'rmuscle: {error}', file=sys.stderr)
        return 2
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        print(f'rmuscle: {command[0]} cannot be started: {error.strerror}', file=sys.stderr)
        return 127


if __name__ == '__main__':
    sys.exit(main())
