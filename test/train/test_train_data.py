"""Demonstrations: the same for a seed, whole or not there, and of one kind per directory."""

import dataclasses
import json

import numpy as np
import pytest
from training_fixtures import DATA, demonstration, write_dataset

from rmuscle_ros.errors import DatasetError, RmuscleError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.train import demonstrations
from rmuscle_ros.train.dataset import (
    DatasetSettings,
    episode_path,
    episode_paths,
    open_dataset,
    read_demonstration,
    read_settings,
    write_demonstration,
)
from rmuscle_ros.train.disturbance import QUIET_GRASP, draw_disturbance
from rmuscle_ros.train.generate import generate, plan_jobs

SIZE = DatasetSettings(image_size=8)


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.rglob('*.npz'))}


@pytest.fixture(scope='module')
def generated(tmp_path_factory):
    """Two episodes of each task, made by two processes."""
    directory = tmp_path_factory.mktemp('generated')
    jobs = plan_jobs({'transfer_cube': 2, 'lift_cube': 2})
    assert generate(directory, jobs, SIZE, processes=2) == 4
    return directory


def test_generation_goes_on_and_does_not_depend_on_processes(generated, tmp_path, capfd):
    jobs = plan_jobs({'transfer_cube': 2, 'lift_cube': 2})
    assert generate(tmp_path, jobs[1:2], SIZE, processes=1) == 1
    (tmp_path / 'lift_cube').mkdir()
    (tmp_path / 'lift_cube' / '7.partial').write_bytes(b'interrupted')
    assert generate(tmp_path, jobs, SIZE, processes=1) == 3
    assert contents(tmp_path) == contents(generated)
    assert not list(tmp_path.rglob('*.partial'))
    assert '4/4' in capfd.readouterr().err


def test_what_a_demonstration_holds(generated):
    paths = episode_paths(generated)
    assert [path.parent.name for path in paths] == ['transfer_cube'] * 2 + ['lift_cube'] * 2
    found = read_demonstration(paths[0], read_settings(generated))
    frames = sum(count for _, count in demonstrations.FRAMES['transfer_cube']) + 2
    assert found.images.shape == (frames, 3, 8, 8, 3)
    assert found.steps[0] == 0 and found.plan.shape == (250, 14)
    assert ((found.plan >= aloha.LOWER - 1e-6) & (found.plan <= aloha.UPPER + 1e-6)).all()
    assert np.abs(found.states - found.plan[found.steps.clip(1, 250) - 1]).max() < 0.35
    assert found.cubes[:, 2].max() > 0.15


def test_disturbed_episodes_come_back_to_the_plan():
    """At the grasp and at the end of the error's fading the executed targets are the plan's."""
    expert, task = Expert(), TASKS['transfer_cube']
    disturbance = draw_disturbance(task, np.random.default_rng(3))
    cube = np.array([0.1, 0.5])
    plan = expert.plan(cube, task.name, disturbance.start)
    still = dataclasses.replace(disturbance, joints=np.zeros((task.steps, 14)))
    executed = demonstrations._disturb(expert, task, cube, plan, still)
    assert np.abs(executed - plan)[: QUIET_GRASP[0] // 2].max() > 0.01
    assert np.array_equal(executed[QUIET_GRASP[0] :], plan[QUIET_GRASP[0] :])
    noisy = demonstrations._disturb(expert, task, cube, plan, disturbance)
    far, near = np.abs(noisy - executed)[90:130].max(), np.abs(noisy - executed)[62:82].max()
    assert 0 < near < far / 2


def test_an_expert_that_always_fails_is_reported(monkeypatch):
    monkeypatch.setattr(demonstrations, 'MAX_ATTEMPTS', 2)
    monkeypatch.setattr(demonstrations, 'DISTURBED_SHARE', 1.0)

    def far_off(task, rng):
        found = draw_disturbance(task, rng)
        return dataclasses.replace(found, cube_error=np.array([0.0, 0.08]), cube_fade=10_000)

    monkeypatch.setattr(demonstrations, 'draw_disturbance', far_off)
    with AlohaStation(8, 'lift_cube') as station, pytest.raises(RmuscleError) as error:
        demonstrations.demonstrate(station, Expert(), 1_000_000)
    assert 'the expert failed in 2 attempts' in str(error.value)


def test_other_settings_are_refused(tmp_path):
    open_dataset(tmp_path, DATA)
    open_dataset(tmp_path, DATA)
    with pytest.raises(DatasetError, match='use another directory'):
        open_dataset(tmp_path, SIZE)
    (tmp_path / 'dataset.json').write_text(json.dumps({'size': 3}))
    with pytest.raises(DatasetError, match='not the settings of a dataset'):
        read_settings(tmp_path)
    with pytest.raises(DatasetError, match='make a dataset first'):
        read_settings(tmp_path / 'nowhere')


def test_a_full_disk_leaves_no_half_episode(tmp_path, full_disk):
    open_dataset(tmp_path, DATA)
    with full_disk(), pytest.raises(DatasetError, match='make room and run the same command'):
        write_demonstration(tmp_path, demonstration())
    assert list((tmp_path / 'transfer_cube').iterdir()) == []
    with pytest.raises(DatasetError, match='found no demonstrations'):
        episode_paths(tmp_path)


def test_damaged_and_foreign_episodes_are_refused(tmp_path):
    write_dataset(tmp_path, transfer=1, lift=0)
    path = episode_path(tmp_path, 'transfer_cube', 0)
    with pytest.raises(DatasetError, match=r'found images \(6, 3, 12, 12, 3\), expected'):
        read_demonstration(path, SIZE)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(DatasetError, match='not a complete demonstration'):
        read_demonstration(path, DATA)
