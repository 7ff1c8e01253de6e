"""What the three cameras see, how fast, and from which thread."""

import threading
import time

import numpy as np
import pytest

from rmuscle_ros.errors import SetupError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.detached import DetachedCameras
from rmuscle_ros.sim.station import AlohaStation

MIN_CUBE_PIXELS = 60
MIN_CUBE_WIDTH = 8
BUDGET_MS = 60.0


@pytest.fixture(scope='module')
def station():
    with AlohaStation() as made:
        yield made


def red(image):
    """Where the cube is: bool [H, W]."""
    r, g, b = np.moveaxis(image.astype(int), -1, 0)
    return (r > 110) & (g < 60) & (b < 60)


def settle(station, seed):
    """Reset, and let the cube fall the three centimetres to the table."""
    station.reset(seed)
    for _ in range(10):
        station.step(aloha.HOME)


def test_pictures_have_the_agreed_form(station):
    station.reset(0)
    images = station.render()
    assert tuple(images) == station.CAMERAS == ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
    for image in images.values():
        assert image.shape == (96, 96, 3)
        assert image.dtype == np.uint8
        assert image.std() > 5.0


def test_cameras_see_different_things(station):
    station.reset(0)
    high, left, right = (image.astype(int) for image in station.render().values())
    for a, b in ((high, left), (high, right), (left, right)):
        assert np.abs(a - b).mean() > 5.0


@pytest.mark.parametrize('seed', range(12))
def test_high_camera_sees_the_whole_cube(station, seed):
    settle(station, seed)
    cube = red(station.render()['cam_high'])
    assert cube.sum() >= MIN_CUBE_PIXELS
    assert cube.any(axis=0).sum() >= MIN_CUBE_WIDTH
    border = np.concatenate([cube[0], cube[-1], cube[:, 0], cube[:, -1]])
    assert not border.any()


def test_the_picture_follows_the_cube(station):
    """Right in the world is right in the picture, and far is up."""
    seen = []
    for seed in range(12):
        settle(station, seed)
        rows, columns = np.nonzero(red(station.render()['cam_high']))
        seen.append([*station.cube_position()[:2], columns.mean(), -rows.mean()])
    correlation = np.corrcoef(np.array(seen).T)
    assert correlation[0, 2] > 0.99
    assert correlation[1, 3] > 0.99


def test_right_is_the_right_wrist(station):
    """Turning the right wrist turns all its camera sees; the left one only sees it from afar."""
    settle(station, 0)
    before = station.render()
    targets = aloha.HOME.copy()
    targets[12] += 0.5
    for _ in range(10):
        station.step(targets)
    change = {
        name: np.abs(image.astype(int) - before[name]).mean()
        for name, image in station.render().items()
    }
    assert change['cam_right_wrist'] > 5.0 * change['cam_left_wrist']


def test_same_state_same_picture(station):
    settle(station, 4)
    first, again = station.render(), station.render()
    for name in station.CAMERAS:
        assert np.array_equal(first[name], again[name])
        assert first[name] is not again[name]


def test_there_are_no_shadows(station):
    """Turning them on changes the picture, so they were off."""
    from mujoco import mjtRndFlag

    settle(station, 4)
    plain = station.render()['cam_high']
    flags = station._renderer._renderer.scene.flags
    flags[mjtRndFlag.mjRND_SHADOW] = True
    shaded = station.render()['cam_high']
    flags[mjtRndFlag.mjRND_SHADOW] = False
    assert not np.array_equal(plain, shaded)


def test_detached_cameras_see_the_same_from_another_thread(station):
    settle(station, 5)
    expected, positions, seen = station.render(), station.scene_positions(), {}

    def draw():
        with DetachedCameras(96) as cameras:
            seen.update(cameras.render(positions))

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert tuple(seen) == station.CAMERAS
    for name, image in expected.items():
        assert np.abs(image.astype(int) - seen[name]).mean() < 0.1


def test_size_is_a_parameter():
    with AlohaStation(image_size=40) as small:
        small.reset(0)
        assert {image.shape for image in small.render().values()} == {(40, 40, 3)}


def test_pictures_are_fast_enough(station):
    station.reset(0)
    station.render()
    times_ms = []
    for _ in range(5):
        start = time.perf_counter()
        images = station.render()
        times_ms.append((time.perf_counter() - start) * 1e3 / len(images))
    assert min(times_ms) < BUDGET_MS


def test_another_thread_is_told_to_stay_away(station):
    station.reset(0)
    told = []

    def use():
        for call in (station.render, station.close):
            with pytest.raises(SetupError, match="thread 'intruder'"):
                call()
            told.append(call)

    thread = threading.Thread(target=use, name='intruder')
    thread.start()
    thread.join()
    assert len(told) == 2
    station.render()
