"""Finding the built overlay: from a sourced shell, from the checkout, or saying what to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rmuscle_ros
from rmuscle_ros.errors import SetupError
from rmuscle_ros.ros import overlay

SOURCED = ('AMENT_PREFIX_PATH', 'COLCON_PREFIX_PATH', 'PYTHONPATH', 'LD_LIBRARY_PATH')


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without an overlay, as the one this process runs from; no ROS is sourced."""
    package = tmp_path / 'rmuscle_ros'
    package.mkdir()
    (package / '__init__.py').touch()
    (tmp_path / 'package.xml').touch()
    monkeypatch.setattr(rmuscle_ros, '__path__', [str(package)])
    monkeypatch.delenv('AMENT_PREFIX_PATH', raising=False)
    monkeypatch.delenv(overlay._APPLIED, raising=False)
    return tmp_path


def write_setup(checkout: Path, text: str) -> Path:
    script = checkout / 'install' / 'setup.bash'
    script.parent.mkdir()
    script.write_text(text)
    return script


def test_without_an_overlay_the_error_says_what_to_run(checkout: Path) -> None:
    with pytest.raises(SetupError, match='run `make setup`') as caught:
        overlay.ros_environment()
    assert str(checkout / 'install') in str(caught.value)


def test_the_environment_comes_from_the_setup_script(checkout: Path) -> None:
    write_setup(checkout, 'echo noise\nexport AMENT_PREFIX_PATH=/there\nexport LINES2="a\nb=c"\n')
    environment = overlay.ros_environment()
    assert environment['AMENT_PREFIX_PATH'].split(os.pathsep)[0] == '/there'
    assert environment['LINES2'] == 'a\nb=c'


def test_a_symlinked_overlay_leads_back_to_its_checkout(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write_setup(checkout, '')
    installed = tmp_path / 'elsewhere' / 'rmuscle_ros'
    installed.mkdir(parents=True)
    (installed / '__init__.py').symlink_to(checkout / 'rmuscle_ros' / '__init__.py')
    monkeypatch.setattr(rmuscle_ros, '__path__', [str(installed)])
    assert overlay.find_setup_script() == script


def test_children_run_this_interpreter(checkout: Path) -> None:
    write_setup(checkout, 'export PATH=/usr/bin:/bin\n')
    first = overlay.ros_environment()['PATH'].split(os.pathsep)[0]
    assert first == str(Path(sys.executable).parent)


def test_a_failing_setup_script_is_quoted(checkout: Path) -> None:
    write_setup(checkout, 'echo "underlay is gone" >&2\nreturn 3\n')
    with pytest.raises(SetupError, match=r'underlay is gone.*make setup'):
        overlay.ros_environment()


def test_an_overlay_that_does_not_help_ends_the_loop(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_setup(checkout, '')
    monkeypatch.setenv(overlay._APPLIED, '1')
    with pytest.raises(SetupError, match='cannot be found by'):
        overlay.ensure_ros()


def test_a_process_starts_anew_with_the_same_words(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_setup(checkout, 'export AMENT_PREFIX_PATH=/there\n')
    seen = {}
    monkeypatch.setattr(sys, 'orig_argv', ['python', '-m', 'rmuscle_ros', 'demo', '--seed', '3'])
    monkeypatch.setattr(os, 'execve', lambda path, argv, env: seen.update(argv=argv, env=env))
    overlay.ensure_ros()
    assert seen['argv'] == [sys.executable, '-m', 'rmuscle_ros', 'demo', '--seed', '3']
    assert seen['env']['AMENT_PREFIX_PATH'].startswith('/there')
    assert overlay._APPLIED in seen['env']


def test_the_prefix_is_the_first_one_that_holds_the_package(tmp_path: Path) -> None:
    for name in ('second', 'third'):
        share = tmp_path / name / 'share' / 'rmuscle_ros'
        share.mkdir(parents=True)
        (share / 'package.xml').touch()
    path = os.pathsep.join(['', *(str(tmp_path / name) for name in ('first', 'second', 'third'))])
    assert overlay.overlay_prefix(path) == tmp_path / 'second'
    assert overlay.overlay_prefix('') is None


def test_running_nothing_or_something_absent_is_said(monkeypatch, capsys) -> None:
    monkeypatch.setattr(overlay, 'ros_environment', lambda: dict(os.environ))
    monkeypatch.setattr(sys, 'argv', ['overlay'])
    assert overlay.main() == 2
    monkeypatch.setattr(sys, 'argv', ['overlay', 'no-such-command'])
    assert overlay.main() == 127
    assert 'no-such-command cannot be started' in capsys.readouterr().err


@pytest.mark.ros
def test_an_unsourced_shell_finds_ros_and_our_messages() -> None:
    script = (
        'from rmuscle_ros.ros.overlay import ensure_ros; ensure_ros()\n'
        'import os, rclpy\n'
        'from rmuscle_ros.msg import ActionChunk\n'
        'from rmuscle_ros.ros.overlay import missing_parts\n'
        'print(missing_parts(), ActionChunk(horizon=3).horizon)'
    )
    bare = {name: value for name, value in os.environ.items() if name not in SOURCED}
    bare.pop('_ROS_WHEELS_BOOTSTRAP_COMPLETE', None)
    command = [sys.executable, '-c', script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=bare)
    assert (done.returncode, done.stdout) == (0, '[] 3\n'), done.stderr
