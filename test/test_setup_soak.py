"""A checkout set up from nothing, for real: downloads, builds, and finds itself up to date."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOAL_SECOND_RUN_S = 5.0
_NOT_COPIED = ('.git', '.venv', 'build', 'install', 'log', 'out', '__pycache__', '*.egg-info')


def make(target: str, checkout: Path, *arguments: str) -> str:
    """Run ``make target`` as a user would, outside this process' own environment."""
    kept = {'PATH', 'HOME', 'LANG', 'TMPDIR'}
    env = {k: v for k, v in os.environ.items() if k in kept or k.startswith('PIP_')}
    parts = [part for part in env['PATH'].split(os.pathsep) if not part.startswith(str(ROOT))]
    env['PATH'] = os.pathsep.join(parts)
    command = ['make', target, *arguments]
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.soak
@pytest.mark.parametrize('distro', ['jazzy', 'kilted'])
def test_a_fresh_checkout_sets_itself_up_and_is_up_to_date_then(
    tmp_path: Path, distro: str
) -> None:
    checkout = tmp_path / 'rmuscle_ros'
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    assert 'Set-up ready' in make('setup', checkout, f'ROS_DISTRO={distro}')
    start_s = time.monotonic()
    assert 'up to date' in make('setup', checkout)
    assert time.monotonic() - start_s < GOAL_SECOND_RUN_S
    shutil.rmtree(checkout / 'install')
    assert 'colcon build' in make('setup', checkout)
    make('test', checkout, 'ARGS=test/ros/test_overlay.py')
