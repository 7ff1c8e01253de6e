"""The expert does both tasks by gym-aloha's reward, smoothly and without standing still."""

import numpy as np
import pytest

from rmuscle_ros.errors import ConfigError, RmuscleError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import TASKS

MAX_MOVE_RAD = 0.06  # per control step: 3 rad/s, about the ViperX's limit
GRID = [(x, y) for x in (0.0, 0.1, 0.2) for y in (0.4, 0.5, 0.6)]


@pytest.fixture(scope='module')
def expert():
    return Expert()


def perform(station, plan):
    """Run a plan; the rewards [steps] and joint positions [steps, 14]."""
    rewards, joints = [], []
    for targets in plan:
        station.step(targets)
        rewards.append(station.reward)
        joints.append(station.joint_positions())
    return np.array(rewards), np.array(joints)


@pytest.mark.parametrize('seed', [0, 1, 2])
def test_hands_the_cube_over(expert, seed):
    with AlohaStation(image_size=8) as station:
        station.reset(seed)
        rewards, joints = perform(station, expert.plan(station.cube_position()[:2]))
        assert station.success
        done = int(np.argmax(rewards == 4))
        assert 130 <= done <= 170
        assert (rewards[-50:] == 4).mean() > 0.9
        moved = np.abs(np.diff(joints[: done + 1], axis=0)).max(axis=1)
        assert moved[3:].min() > 2e-4


@pytest.mark.parametrize('seed', [0, 1, 2])
def test_lifts_and_holds_the_cube(expert, seed):
    with AlohaStation(image_size=8, task='lift_cube') as station:
        station.reset(seed)
        _, joints = perform(station, expert.plan(station.cube_position()[:2], 'lift_cube'))
        assert station.success
        assert station.max_reward == 2
        assert station.cube_position()[2] > 0.15
        assert joints[:, :7] == pytest.approx(np.tile(aloha.HOME[:7], (len(joints), 1)), abs=0.01)


@pytest.mark.parametrize('task', TASKS)
@pytest.mark.parametrize('cube', GRID, ids=str)
def test_plans_are_smooth_from_home_on_over_the_whole_range(expert, task, cube):
    plan = expert.plan(np.array(cube), task)
    assert plan.shape == (TASKS[task].steps, 14)
    assert ((plan >= aloha.LOWER) & (plan <= aloha.UPPER)).all()
    moves = np.diff(np.vstack([aloha.HOME, plan]), axis=0)
    assert np.abs(moves).max() < MAX_MOVE_RAD
    assert 0.0 < np.abs(moves[0]).max() < 0.01


@pytest.mark.parametrize('task', TASKS)
def test_near_cubes_have_near_plans(expert, task):
    """No joint jumps to its other solution anywhere in the range."""
    plans = np.array([expert.plan(np.array(cube), task) for cube in GRID]).reshape(3, 3, -1)
    for axis in (0, 1):
        assert np.abs(np.diff(plans, axis=axis)).max() < 0.7


def test_starts_where_it_is_told(expert):
    start = aloha.HOME + 0.05
    start[[aloha.LEFT_GRIPPER, aloha.RIGHT_GRIPPER]] = 0.04
    plan = expert.plan(np.array([0.1, 0.5]), start=start)
    assert plan[0] == pytest.approx(start, abs=0.01)
    assert plan[-1] == pytest.approx(expert.plan(np.array([0.1, 0.5]))[-1])


def test_same_cube_same_plan(expert):
    cube = np.array([0.05, 0.55])
    first = expert.plan(cube)
    expert.plan(np.array([0.2, 0.4]))
    assert np.array_equal(expert.plan(cube), first)


@pytest.mark.parametrize('cube', [(0.1,), (0.1, np.nan), (0.1, 0.5, 0.02)], ids=str)
def test_bad_cube_positions_are_refused(expert, cube):
    with pytest.raises(RmuscleError, match='expected two finite numbers'):
        expert.plan(np.array(cube))


def test_cubes_out_of_reach_and_unknown_tasks_are_refused(expert):
    with pytest.raises(RmuscleError, match='no joint angles found'):
        expert.plan(np.array([-1.0, 0.5]))
    with pytest.raises(ConfigError, match='expected one of'):
        expert.plan(np.array([0.1, 0.5]), task='juggle')
    with pytest.raises(RmuscleError, match=r'start: found shape \(7,\)'):
        expert.plan(np.array([0.1, 0.5]), start=np.zeros(7))
