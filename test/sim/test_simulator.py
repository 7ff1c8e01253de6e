"""Without MuJoCo, gym-aloha or EGL: the package loads, and a station says what is missing."""

import os
import subprocess
import sys
import textwrap

import pytest

CREATE = """
    from rmuscle_ros.errors import SetupError
    from rmuscle_ros.sim.expert import Expert
    from rmuscle_ros.sim.station import AlohaStation
    from rmuscle_ros.sim.trajectory import TrajectoryFollower
    for create in (AlohaStation, {others}):
        try:
            create()
        except SetupError as error:
            print(error)
"""
BLOCK = """
    import sys
    for name in ({names}):
        sys.modules[name] = None
"""


def run(code, **environment):
    """Output of a fresh interpreter."""
    result = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize('missing', ['mujoco', 'gym_aloha', 'dm_control'])
def test_a_missing_module_is_named(missing):
    block = textwrap.dedent(BLOCK.format(names=f'{missing!r},'))
    said = run(block + textwrap.dedent(CREATE.format(others='Expert')))
    assert said.count(f'needs the Python module {missing}') == 2
    assert 'pip install' in said


def test_missing_egl_is_a_setup_error():
    """No EGL vendor library is found in an empty folder, so there is no device."""
    said = run(CREATE.format(others=''), MUJOCO_GL='egl', __EGL_VENDOR_LIBRARY_DIRS='/nonexistent')
    assert 'Off-screen rendering needs EGL: apt-get install libegl1' in said


def test_rendering_falls_back_to_egl_when_nothing_is_chosen():
    said = run(
        """
        import os
        os.environ.pop('MUJOCO_GL', None)
        from rmuscle_ros.sim.station import AlohaStation
        with AlohaStation(image_size=8) as station:
            station.reset(0)
            print(station.render()['cam_high'].shape)
        """
    )
    assert said.strip() == '(8, 8, 3)'


def test_stations_left_open_end_quietly():
    code = """
        from rmuscle_ros.sim.station import AlohaStation
        for _ in range(2):
            station = AlohaStation(image_size=8)
            station.reset(0)
    """
    result = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(code)],
        env={**os.environ, 'MUJOCO_GL': 'egl'},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, '')
