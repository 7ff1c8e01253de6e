"""The controller's rules (ros2_controllers, jazzy, validate_trajectory_msg) and its motion."""

import numpy as np
import pytest

from rmuscle_ros.errors import TrajectoryError
from rmuscle_ros.sim.trajectory import JointTrajectoryCommand, TrajectoryFollower

JOINTS = ('waist', 'elbow', 'gripper')
HOME = np.array([0.1, -0.2, 0.03])
NOW_S = 100.0


def command(**changes):
    """Two points for three joints, 0.1 s and 0.2 s after arrival; ``changes`` replace fields."""
    fields = {
        'joint_names': JOINTS,
        'stamp_s': 0.0,
        'positions': np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),
        'times_from_start_s': np.array([0.1, 0.2]),
    }
    return JointTrajectoryCommand(**(fields | changes))


@pytest.fixture
def follower():
    return TrajectoryFollower(JOINTS, HOME)


BROKEN_RULES = {
    'no joint names': (command(joint_names=()), 'no joint names'),
    'no points': (
        command(positions=np.zeros((0, 3)), times_from_start_s=np.zeros(0)),
        'no points',
    ),
    'points without positions': (command(positions=np.zeros((2, 0))), 'no points'),
    'unknown joint': (command(joint_names=('waist', 'elbow', 'knee')), "unknown joint 'knee'"),
    'missing joint': (
        command(joint_names=('waist', 'gripper'), positions=np.zeros((2, 2))),
        'missing joint elbow',
    ),
    'repeated joint': (
        command(joint_names=('waist', 'elbow', 'elbow')),
        "'elbow' is named 2 times",
    ),
    'equal times': (command(times_from_start_s=np.array([0.1, 0.1])), 'not strictly increasing'),
    'falling times': (command(times_from_start_s=np.array([0.2, 0.1])), 'not strictly increasing'),
    'too few times': (command(times_from_start_s=np.array([0.1])), r'found shape \(2, 3\)'),
    'too few positions': (command(positions=np.zeros((2, 2))), r'expected \(2, 3\)'),
    'too few velocities': (command(velocities=np.zeros((1, 3))), 'velocities: found shape'),
    'NaN position': (
        command(positions=np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]])),
        'positions: .* not finite at point 1',
    ),
    'infinite time': (command(times_from_start_s=np.array([0.1, np.inf])), 'not finite'),
    'NaN velocity': (command(velocities=np.array([[np.nan, 0, 0], [0, 0, 0]])), 'velocities: '),
    'NaN stamp': (command(stamp_s=np.nan), 'stamp_s: '),
    'ends in the past': (command(stamp_s=NOW_S - 0.5), 'ended 0.300 s ago'),
    'moving at the end': (
        command(velocities=np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.0]])),
        'last point is 0.5 for elbow',
    ),
}


@pytest.mark.parametrize(('broken', 'message'), BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_refuses_and_changes_nothing(follower, broken, message):
    follower.accept(command(), NOW_S)
    before = follower.sample(NOW_S + 0.13)
    with pytest.raises(TrajectoryError, match=message):
        follower.accept(broken, NOW_S + 0.05 if broken.stamp_s == 0.0 else NOW_S)
    assert np.array_equal(follower.sample(NOW_S + 0.13), before)


@pytest.mark.parametrize(
    'accepted',
    [
        command(stamp_s=NOW_S - 0.2),
        command(velocities=np.array([[9.0, 0.0, 0.0], [1e-8, 0.0, 0.0]])),
        command(positions=np.zeros((1, 3)), times_from_start_s=np.array([0.0])),
    ],
    ids=['ends exactly now', 'end velocity below float epsilon', 'one point, at once'],
)
def test_accepts(follower, accepted):
    follower.accept(accepted, NOW_S)
    assert np.array_equal(follower.sample(NOW_S + 10.0), accepted.positions[-1])


def test_from_points_names_the_point_of_another_size():
    with pytest.raises(TrajectoryError, match='positions: found 2 values at point 1, expected 3'):
        JointTrajectoryCommand.from_points(JOINTS, 0.0, [0.1, 0.2], [[1, 2, 3], [1, 2]])
    with pytest.raises(TrajectoryError, match='velocities: found 0 values at point 1'):
        JointTrajectoryCommand.from_points(
            JOINTS, 0.0, [0.1, 0.2], [[1, 2, 3], [1, 2, 3]], [[0, 0, 0], []]
        )


def test_from_points_keeps_what_it_is_given(follower):
    built = JointTrajectoryCommand.from_points(
        list(JOINTS), 0.0, [0.1, 0.2], [[1, 2, 3], [3, 2, 1]], [[], []]
    )
    assert built.velocities is None
    follower.accept(built, NOW_S)
    assert follower.sample(NOW_S + 0.2) == pytest.approx([3, 2, 1])
    empty = JointTrajectoryCommand.from_points(JOINTS, 0.0, [], [])
    with pytest.raises(TrajectoryError, match='no points'):
        follower.accept(empty, NOW_S)


def test_commands_home_until_told_otherwise(follower):
    assert np.array_equal(follower.sample(NOW_S), HOME)
    assert not follower.active(NOW_S)


def test_moves_linearly_from_the_commanded_position_through_the_points(follower):
    follower.accept(command(), NOW_S)
    assert follower.sample(NOW_S) == pytest.approx(HOME)
    assert follower.sample(NOW_S + 0.05) == pytest.approx((HOME + np.array([1.0, 2.0, 3.0])) / 2)
    assert follower.sample(NOW_S + 0.1) == pytest.approx([1.0, 2.0, 3.0])
    assert follower.sample(NOW_S + 0.15) == pytest.approx([2.0, 2.0, 2.0])


def test_holds_the_last_point(follower):
    follower.accept(command(), NOW_S)
    assert follower.active(NOW_S + 0.19)
    assert not follower.active(NOW_S + 0.2)
    for later_s in (0.2, 5.0):
        assert follower.sample(NOW_S + later_s) == pytest.approx([3.0, 2.0, 1.0])


def test_maps_joints_by_name(follower):
    shuffled = command(
        joint_names=('gripper', 'waist', 'elbow'),
        velocities=np.array([[0.3, 0.1, 0.2], [0.0, 0.0, 0.0]]),
    )
    sorted_twin = command(
        positions=np.array([[2.0, 3.0, 1.0], [2.0, 1.0, 3.0]]),
        velocities=np.array([[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]]),
    )
    twin = TrajectoryFollower(JOINTS, HOME)
    follower.accept(shuffled, NOW_S)
    twin.accept(sorted_twin, NOW_S)
    for later_s in (0.03, 0.1, 0.17, 0.2):
        assert np.array_equal(follower.sample(NOW_S + later_s), twin.sample(NOW_S + later_s))


def test_replaces_the_running_trajectory_without_splicing(follower):
    follower.accept(command(), NOW_S)
    at_s = NOW_S + 0.15
    future = command(stamp_s=at_s + 0.9, positions=np.full((2, 3), 4.0))
    follower.accept(future, at_s)
    assert follower.sample(at_s) == pytest.approx([2.0, 2.0, 2.0])
    assert follower.sample(at_s + 0.5) == pytest.approx([3.0, 3.0, 3.0])
    assert follower.sample(at_s + 1.0) == pytest.approx([4.0, 4.0, 4.0])


def test_enters_a_trajectory_that_has_begun_where_it_is_now(follower):
    follower.accept(command(stamp_s=NOW_S - 0.15), NOW_S)
    assert follower.sample(NOW_S) == pytest.approx([2.0, 2.0, 2.0])


def test_velocities_make_the_segments_cubic(follower):
    peak = np.array([2.0, -1.0, 0.0])
    follower.accept(command(velocities=np.array([peak, np.zeros(3)])), NOW_S)
    step_s = 1e-6
    for time_s, slope in ((0.0, np.zeros(3)), (0.1, peak), (0.2 - step_s, np.zeros(3))):
        here, there = (follower.sample(NOW_S + time_s + d) for d in (0.0, step_s))
        assert (there - here) / step_s == pytest.approx(slope, abs=1e-2)
    # Half way a cubic is the mean of its ends plus length / 8 times the difference of slopes.
    expected = np.array([2.0, 2.0, 2.0]) + 0.1 / 8 * peak
    assert follower.sample(NOW_S + 0.15) == pytest.approx(expected)


def test_hold_stays_at_the_commanded_position(follower):
    follower.accept(command(), NOW_S)
    follower.hold(NOW_S + 0.15)
    assert not follower.active(NOW_S + 0.15)
    for later_s in (0.15, 0.2, 3.0):
        assert follower.sample(NOW_S + later_s) == pytest.approx([2.0, 2.0, 2.0])


def test_does_not_share_arrays_with_its_callers(follower):
    sent = command()
    follower.accept(sent, NOW_S)
    sent.positions[:] = np.nan
    follower.sample(NOW_S + 1.0)[:] = np.nan
    assert follower.sample(NOW_S + 1.0) == pytest.approx([3.0, 2.0, 1.0])


def test_home_must_fit_the_joints():
    with pytest.raises(TrajectoryError, match=r'home: found shape \(2,\), expected \(3,\)'):
        TrajectoryFollower(JOINTS, np.zeros(2))
