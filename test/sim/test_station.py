"""The station agrees with gym-aloha, is deterministic, and refuses what it cannot do."""

import numpy as np
import pytest

from rmuscle_ros.errors import ConfigError, RmuscleError, SetupError, TrajectoryError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.simulator import load_scene
from rmuscle_ros.sim.station import AlohaStation


@pytest.fixture(scope='module')
def station():
    with AlohaStation(image_size=32) as made:
        yield made


def wave(steps, seed):
    """Targets float64 [steps, 14] that move every joint, within the actuators' ranges."""
    rng = np.random.default_rng(seed)
    walk = aloha.HOME + np.cumsum(rng.normal(0.0, 0.02, (steps, 14)), axis=0)
    walk[:, [aloha.LEFT_GRIPPER, aloha.RIGHT_GRIPPER]] = rng.uniform(0.021, 0.057, (steps, 2))
    return walk


def gym_aloha_environment():
    """gym-aloha's own environment, without the three large pictures of each observation."""
    load_scene()
    from gym_aloha.env import AlohaEnv

    environment = AlohaEnv('transfer_cube', obs_type='pixels')
    picture = {'images': {'top': np.zeros((1, 1, 3), np.uint8)}}
    environment._env.task.get_observation = lambda physics: picture
    return environment


def test_names_and_ranges_are_those_of_gym_aloha(station):
    from gym_aloha.constants import DT, JOINTS, START_ARM_POSE

    ours = [name.removeprefix('follower_') for name in station.JOINT_NAMES]
    assert ours == [name.replace('_arm', '') for name in JOINTS]
    assert station.CONTROL_PERIOD_S == DT
    assert np.array_equal(aloha.HOME, np.delete(START_ARM_POSE, [7, 15]))
    limits = station._scene.physics.model.actuator_ctrlrange[load_scene().JOINT_INDEX]
    assert np.array_equal(np.stack([aloha.LOWER, aloha.UPPER], axis=1), limits)


def test_physics_and_reward_equal_gym_aloha_bit_for_bit(station):
    from gym_aloha.constants import unnormalize_puppet_gripper_position

    environment = gym_aloha_environment()
    rng = np.random.default_rng(7)
    for seed in (0, 11):
        environment.reset(seed=seed)
        station.reset(seed)
        for targets in wave(50, seed):
            grippers = [aloha.LEFT_GRIPPER, aloha.RIGHT_GRIPPER]
            action = targets.copy()
            action[grippers] = rng.uniform(0.0, 1.0, 2)
            targets[grippers] = unnormalize_puppet_gripper_position(action[grippers])
            _, reward, *_ = environment.step(action)
            station.step(targets)
            physics = environment._env.physics
            assert np.array_equal(station._scene.physics.data.qpos, physics.data.qpos)
            assert np.array_equal(station._scene.physics.data.qvel, physics.data.qvel)
            assert station.reward == reward


def test_same_seed_same_episode(station):
    def episode(seed):
        station.reset(seed)
        for targets in wave(20, seed=1):
            station.step(targets)
        return station.joint_positions(), station.joint_velocities(), station.cube_position()

    first, again, other = episode(5), episode(5), episode(6)
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a, b)
    assert not np.allclose(first[2], other[2])


def test_reset_puts_everything_back(station):
    station.reset(3)
    cube = station.cube_position()
    for targets in wave(20, seed=2):
        station.step(targets)
    assert station.time_s == pytest.approx(0.4)
    station.reset(3)
    assert np.array_equal(station.cube_position(), cube)
    assert np.array_equal(station.joint_positions(), aloha.HOME)
    assert np.array_equal(station.joint_velocities(), np.zeros(14))
    assert (station.time_s, station.steps, station.reward, station.max_reward) == (0.0, 0, 0, 0)
    assert not station.success


def test_joints_go_where_they_are_told(station):
    station.reset(0)
    targets = aloha.HOME + np.array([0.1, -0.1, 0.1, 0.1, -0.1, 0.2, 0.01] * 2)
    for _ in range(50):
        station.step(targets)
    assert station.joint_positions() == pytest.approx(targets, abs=0.02)
    assert station.joint_positions()[6::7] == pytest.approx(targets[6::7], abs=0.001)
    assert np.abs(station.joint_velocities()).max() < 0.01


def test_velocities_are_the_change_of_positions(station):
    """Mean velocity over a control step of a slow, steady motion, in rad/s and m/s."""
    station.reset(0)
    speed = np.array([0.3, -0.2, 0.2, 0.3, -0.3, 0.4, 0.02] * 2)
    for step in range(40):
        before = station.joint_positions()
        station.step(aloha.HOME + speed * 0.02 * step)
    measured = (station.joint_positions() - before) / station.CONTROL_PERIOD_S
    assert measured == pytest.approx(speed, rel=0.2)
    assert station.joint_velocities() == pytest.approx(measured, rel=0.4)


def test_joint_vectors_are_copies(station):
    station.reset(0)
    station.joint_positions()[:] = 9.0
    station.cube_position()[:] = 9.0
    assert np.array_equal(station.joint_positions(), aloha.HOME)
    assert np.abs(station.cube_position()).max() < 1.0


def test_targets_beyond_a_range_end_at_the_actuators_limit(station):
    states = []
    for waist, gripper in ((3.14158, 0.057), (7.0, 0.4)):
        station.reset(0)
        targets = aloha.HOME.copy()
        targets[0], targets[aloha.LEFT_GRIPPER] = waist, gripper
        for _ in range(30):
            station.step(targets)
        states.append(station.joint_positions())
    assert np.array_equal(*states)
    assert states[0][0] > 2.5


@pytest.mark.parametrize(
    ('targets', 'message'),
    [
        (np.zeros(13), r'found shape \(13,\), expected \(14,\)'),
        (np.zeros((1, 14)), r'found shape \(1, 14\)'),
        (np.where(np.arange(14) == 8, np.nan, aloha.HOME), 'nan for follower_right_shoulder'),
        (np.where(np.arange(14) == 6, np.inf, aloha.HOME), 'inf for follower_left_gripper'),
    ],
    ids=['13 joints', '2-d', 'NaN', 'infinite'],
)
def test_bad_targets_are_refused_and_nothing_moves(station, targets, message):
    station.reset(0)
    before = station.joint_positions()
    with pytest.raises(TrajectoryError, match=message):
        station.step(targets)
    assert station.steps == 0
    assert np.array_equal(station.joint_positions(), before)


@pytest.mark.parametrize('seed', [-1, 2**32, 1.5, '3', None])
def test_bad_seeds_are_refused(station, seed):
    with pytest.raises(ConfigError, match=r'seed: found .* expected a whole number'):
        station.reset(seed)


@pytest.mark.parametrize('size', [0, 5000, 96.0, True])
def test_bad_image_sizes_are_refused(size):
    with pytest.raises(ConfigError, match=r'image_size: found .* pixels'):
        AlohaStation(image_size=size)


def test_unknown_tasks_are_refused():
    with pytest.raises(ConfigError, match="found 'juggle', expected one of transfer_cube"):
        AlohaStation(task='juggle')


def test_nothing_works_before_the_first_reset_or_after_close():
    station = AlohaStation(image_size=8)
    for use in (station.joint_positions, station.render, lambda: station.step(aloha.HOME)):
        with pytest.raises(RmuscleError, match='call reset'):
            use()
    station.reset(0)
    station.close()
    station.close()
    with pytest.raises(SetupError, match='closed'):
        station.render()
