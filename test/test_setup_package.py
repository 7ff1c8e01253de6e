"""The package's description files agree with each other, and the locks with their inputs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import pytest

import rmuscle_ros

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / 'requirements').glob('*.lock'))
MANIFEST = ElementTree.parse(ROOT / 'package.xml').getroot()


def names_and_versions(lock: Path) -> dict[str, str]:
    lines = [line for line in lock.read_text().splitlines() if not line.startswith('#')]
    return dict(line.split('==') for line in lines)


def test_the_manifest_carries_the_version_of_the_code() -> None:
    assert MANIFEST.findtext('version') == rmuscle_ros.__version__
    assert MANIFEST.get('format') == '3'


def test_the_maintainer_address_is_one_that_colcon_accepts() -> None:
    email = MANIFEST.find('maintainer').get('email')
    assert re.fullmatch(r'[\w.-]+@[\w-]+(\.[\w-]+)+', email)


def test_the_manifest_names_what_the_nodes_and_the_launch_file_import() -> None:
    named = {element.text for element in MANIFEST if element.tag.endswith('depend')}
    source = ''.join(path.read_text() for path in (ROOT / 'rmuscle_ros' / 'ros').rglob('*.py'))
    source += ''.join(path.read_text() for path in (ROOT / 'launch').glob('*.py'))
    messages = set(re.findall(r'^from (\w+)\.(?:msg|srv) import', source, re.MULTILINE))
    assert messages - {'rmuscle_ros'} <= named
    assert {'rclpy', 'launch', 'launch_ros', 'launch_pytest', 'cv_bridge'} <= named


@pytest.mark.parametrize('lock', LOCKS, ids=lambda path: path.stem)
def test_a_lock_pins_all_that_its_input_asks_for(lock: Path) -> None:
    lines = lock.with_suffix('.in').read_text().splitlines()
    words = [re.split(r'[\[<=>~ ]', line)[0] for line in lines if line and line[0] != '#']
    others = [path for path in LOCKS if not path.stem.startswith('ros-') or path == lock]
    pinned = {name for path in others for name in names_and_versions(path)}
    assert {word.lower().replace('_', '-') for word in words} <= pinned


@pytest.mark.parametrize('distro', ['jazzy', 'kilted'])
def test_the_locks_of_one_environment_agree(distro: str) -> None:
    groups = ('build', 'torch', 'app', 'dev', f'ros-{distro}')
    pins = {
        pin for path in LOCKS if path.stem in groups for pin in names_and_versions(path).items()
    }
    assert len(pins) == len(dict(pins))


def test_both_executables_are_installed_and_say_what_to_do_without_dependencies() -> None:
    text = (ROOT / 'CMakeLists.txt').read_text()
    for name in ('rmuscle_node', 'aloha_station'):
        script = ROOT / 'scripts' / name
        assert f'scripts/{name}' in text
        assert script.stat().st_mode & 0o111
        assert script.read_text().startswith('#!/usr/bin/env python3\n')
        bare = [sys.executable, '-I', '-S', str(script)]
        done = subprocess.run(bare, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert "No module named 'rmuscle_ros'" in done.stderr
        assert 'make setup' in done.stderr


def test_the_wheel_holds_the_library_and_the_command_and_no_messages(tmp_path: Path) -> None:
    # Built from a copy: setuptools leaves build/ and an egg-info beside setup.py.
    copy = tmp_path / 'copy'
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(ROOT / 'rmuscle_ros', copy / 'rmuscle_ros', ignore=ignore)
    for name in ('setup.py', 'pyproject.toml', 'LICENSE'):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '-q']
    command += ['--wheel-dir', str(tmp_path), str(copy)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob('*.whl')
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(n for n in names if n.endswith('entry_points.txt')))
    assert b'rmuscle = rmuscle_ros.cli:main' in entry_points
    kinds = ('.py', '.html', '.css', '.typed')
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / 'rmuscle_ros').rglob('*')
        if path.suffix in kinds
    }
    assert 'rmuscle_ros/eval/report.css' in sources
    assert sources <= set(names)
    assert not [name for name in names if name.startswith(('test/', 'tools/', 'launch/'))]
    assert any(name.endswith('licenses/LICENSE') for name in names)
