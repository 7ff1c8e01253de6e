"""Pictures drawn away from the physics are the station's own."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rmuscle_ros.errors import SetupError
from rmuscle_ros.sim.aloha import CAMERAS, HOME
from rmuscle_ros.sim.detached import DetachedCameras
from rmuscle_ros.sim.station import AlohaStation


@pytest.fixture(scope='module')
def moved():
    """A station in mid-motion: its positions and what it sees."""
    with AlohaStation(image_size=48) as station:
        station.reset(3)
        for _ in range(20):
            station.step(HOME + 0.2)
        return station.scene_positions(), station.render()


def test_the_same_positions_give_the_same_pictures(moved):
    positions, expected = moved
    with DetachedCameras(48) as cameras:
        pictures = cameras.render(positions)
    assert tuple(pictures) == CAMERAS
    for camera in CAMERAS:
        np.testing.assert_array_equal(pictures[camera], expected[camera])


def test_other_positions_give_other_pictures(moved):
    positions, expected = moved
    with DetachedCameras(48) as cameras:
        pictures = cameras.render(np.roll(positions, 1))
    assert not np.array_equal(pictures['cam_high'], expected['cam_high'])


def test_a_thread_of_its_own_can_draw_and_no_other(moved):
    positions, expected = moved
    with ThreadPoolExecutor(1) as other:
        cameras = other.submit(DetachedCameras, 48).result()
        pictures = other.submit(cameras.render, positions).result()
        with pytest.raises(SetupError, match='belongs to the thread'):
            cameras.render(positions)
        other.submit(cameras.close).result()
    np.testing.assert_array_equal(pictures['cam_left_wrist'], expected['cam_left_wrist'])
