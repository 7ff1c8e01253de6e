"""Inverse kinematics reaches its pose; paths keep their way-points and never overshoot."""

import numpy as np
import pytest

from rmuscle_ros.errors import RmuscleError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.kinematics import ArmKinematics, smooth_path
from rmuscle_ros.sim.simulator import load_scene

TOOL_M = 0.15
LEVEL = {'left': np.eye(3), 'right': np.diag([-1.0, -1.0, 1.0])}


@pytest.fixture(scope='module')
def model():
    return load_scene().compile_model()


def tool_pose(model, side, joints):
    """Tool point [3] and gripper axes [3, 3] by MuJoCo's own forward kinematics."""
    import mujoco  # here, as the first import of mujoco chooses the rendering backend

    data = mujoco.MjData(model)
    first = model.joint(f'vx300s_{side}/waist').qposadr[0]
    data.qpos[first : first + 6] = joints
    mujoco.mj_forward(model, data)
    axes = data.body(f'vx300s_{side}/gripper_link').xmat.reshape(3, 3)
    return data.body(f'vx300s_{side}/gripper_link').xpos + TOOL_M * axes[:, 0], axes


@pytest.mark.parametrize('side', ['left', 'right'])
@pytest.mark.parametrize('tool', [(0.0, 0.5, 0.25), (-0.04, 0.42, 0.3), (0.03, 0.6, 0.2)])
def test_reaches_position_and_orientation(model, side, tool):
    arm = ArmKinematics(model, side, TOOL_M)
    joints = arm.solve(np.array(tool), LEVEL[side], aloha.HOME[:6])
    reached, axes = tool_pose(model, side, joints)
    assert reached == pytest.approx(tool, abs=1e-4)
    assert axes == pytest.approx(LEVEL[side], abs=1e-3)


def test_out_of_reach_is_an_error_that_says_how_far(model):
    arm = ArmKinematics(model, 'right', TOOL_M)
    with pytest.raises(RmuscleError, match=r'no joint angles found .* mm away'):
        arm.solve(np.array([-1.5, 0.5, 0.1]), LEVEL['right'], aloha.HOME[:6])


def test_path_passes_its_way_points_and_rests_at_both_ends():
    steps = [0, 7, 19, 40]
    points = np.array([[0.0, 5.0], [1.0, 2.0], [3.0, 4.0], [3.5, 4.0]])
    path = smooth_path(steps, points, np.arange(0, 41, dtype=float))
    assert path[steps] == pytest.approx(points)
    fine = smooth_path(steps, points, np.array([0.0, 1e-4, 40 - 1e-4, 40.0]))
    assert np.diff(fine, axis=0)[[0, 2]] == pytest.approx(0.0, abs=1e-7)


def test_path_never_overshoots_and_moves_through_way_points():
    steps = [0, 10, 12, 40, 50]
    points = np.array([[0.0], [1.0], [1.1], [2.0], [2.0]])
    moves = np.diff(smooth_path(steps, points, np.arange(0, 50.5, 0.5))[:, 0])
    assert (moves >= -1e-12).all()
    assert moves[[20, 24]].min() > 0.005
    assert np.abs(moves[80:]).max() < 1e-12


def test_path_turns_round_at_its_way_point():
    points = np.array([[0.0], [1.0], [0.2]])
    path = smooth_path([0, 10, 14], points, np.arange(0, 14.1, 0.1))[:, 0]
    assert path.max() == pytest.approx(1.0)
    assert path.argmax() == 100


def test_path_of_two_points_is_a_smooth_step():
    path = smooth_path([0, 4], np.array([[0.0], [2.0]]), np.array([1.0, 2.0, 4.0]))
    u = np.array([0.25, 0.5, 1.0])
    assert path[:, 0] == pytest.approx(2.0 * (3 * u**2 - 2 * u**3))
