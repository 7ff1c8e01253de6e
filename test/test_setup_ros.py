"""Which ROS is used: a sourced one first, else the wheels of the distribution asked for."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from provision import headers, ros
from provision.interpreter import Interpreter
from provision.report import StepError

ROOT = Path('/home/me/checkout')


def python(rclpy: str | None) -> Interpreter:
    return Interpreter('/usr/bin/python3', '3.12.3', '/include', True, True, rclpy, [])


@pytest.fixture(autouse=True)
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, 'machine', lambda: 'x86_64')
    monkeypatch.setattr(platform, 'system', lambda: 'Linux')


@pytest.mark.parametrize(
    ('wish', 'remembered', 'distro'),
    [
        (None, None, 'jazzy'),
        ('kilted', None, 'kilted'),
        (None, 'kilted', 'kilted'),
        ('jazzy', 'kilted', 'jazzy'),
    ],
    ids=['default', 'asked', 'kept', 'changed'],
)
def test_wheels_are_those_asked_for_else_those_there(wish, remembered, distro) -> None:
    env = {'ROS_DISTRO': wish} if wish else {}
    chosen = ros.choose_ros(env, remembered)
    assert (chosen.distro, chosen.sourced) == (distro, False)


def test_a_sourced_ros_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros, 'probe', lambda path, env: python('/opt/ros/jazzy/rclpy.py'))
    monkeypatch.setattr(ros, 'on_path', lambda name, path: iter(['/usr/bin/python3']))
    env = {'AMENT_PREFIX_PATH': '/opt/ros/jazzy', 'ROS_DISTRO': 'jazzy'}
    chosen = ros.choose_ros(env, 'jazzy')
    assert chosen.sourced
    assert chosen.identity != 'jazzy'
    built = ros.build_environment(chosen, ROOT / '.venv', env)
    assert built['AMENT_PREFIX_PATH'] == '/opt/ros/jazzy'


def test_a_prefix_without_rclpy_is_no_sourced_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros, 'probe', lambda path, env: python(None))
    assert not ros.choose_ros(
        {'AMENT_PREFIX_PATH': '/ws/install', 'PATH': '/usr/bin'}, None
    ).sourced


def test_an_environment_of_a_sourced_ros_is_not_replaced_unasked() -> None:
    with pytest.raises(StepError, match='has none sourced') as caught:
        ros.choose_ros({}, 'sourced jazzy /opt/ros/jazzy/rclpy.py')
    assert 'make clean' in caught.value.todo


def test_a_distribution_without_wheels_is_refused() -> None:
    with pytest.raises(StepError, match='ROS_DISTRO is humble'):
        ros.choose_ros({'ROS_DISTRO': 'humble'}, None)


def test_another_machine_than_x86_64_needs_a_sourced_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, 'machine', lambda: 'aarch64')
    with pytest.raises(StepError, match='Linux on aarch64') as caught:
        ros.choose_ros({}, None)
    assert 'source /opt/ros/jazzy/setup.bash' in caught.value.todo


def test_our_own_active_environment_and_overlay_do_not_count() -> None:
    env = ros.clean_environment(
        ROOT,
        {
            'PATH': f'{ROOT}/.venv/bin:/usr/bin',
            'AMENT_PREFIX_PATH': f'{ROOT}/install/rmuscle_ros:{ROOT}/.venv',
            'PYTHONPATH': f'{ROOT}/install/rmuscle_ros/lib:/mine',
            'MAKEFLAGS': '-j8',
            'HOME': '/home/me',
        },
    )
    assert env == {'PATH': '/usr/bin', 'PYTHONPATH': '/mine', 'HOME': '/home/me'}


def test_wheels_are_built_against_nothing_else() -> None:
    env = {'PATH': '/usr/bin', 'PYTHONPATH': '/mine', 'CMAKE_PREFIX_PATH': '/opt/other'}
    built = ros.build_environment(ros.Ros('kilted'), ROOT / '.venv', env)
    assert built['AMENT_PREFIX_PATH'] == built['CMAKE_PREFIX_PATH'] == f'{ROOT}/.venv'
    assert built['PATH'] == f'{ROOT}/.venv/bin:/usr/bin'
    assert 'PYTHONPATH' not in built


def test_header_paths_of_the_wheels_are_mended_once(tmp_path: Path) -> None:
    file = tmp_path / 'share/std_msgs/cmake/export_std_msgs__rosidl_generator_pyExport.cmake'
    file.parent.mkdir(parents=True)
    python_base = '/opt/python/cp311-cp311'
    numpy = f'{python_base}/lib/python3.11/site-packages/numpy/_core/include'
    file.write_text(f'INCLUDES "{python_base}/include/python3.11;{numpy}"\n')
    assert headers.mend(tmp_path, r'/usr/include/python3.11', r'/x\1/numpy') == 1
    assert file.read_text() == 'INCLUDES "/usr/include/python3.11;/x\\1/numpy"\n'
    assert headers.mend(tmp_path, '/a', '/b') == 0
