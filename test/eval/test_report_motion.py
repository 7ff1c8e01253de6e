import numpy as np
import pytest

from rmuscle_ros.eval.motion import boundary_steps
from rmuscle_ros.eval.records import JointTrace


def trace(commanded, starts_s, names=('waist', 'elbow')):
    commanded = np.asarray(commanded, dtype=float)
    times_s = 0.02 * np.arange(len(commanded))
    return JointTrace(times_s, commanded, np.zeros_like(commanded), names, tuple(starts_s))


def ramp(rows=40):
    """Waist and elbow rise by 0.01 and 0.005 rad per sample."""
    return np.outer(np.arange(rows), [0.01, 0.005])


def test_a_jump_at_a_boundary_is_told_from_motion_inside():
    commanded = ramp()
    commanded[20:, 1] += 0.3
    steps = boundary_steps(trace(commanded, [0.4]))
    assert (steps.boundary.joint, steps.boundaries) == ('elbow', 1)
    assert steps.boundary.rad == pytest.approx(0.305)
    assert steps.boundary.time_s == pytest.approx(0.4)
    assert steps.inside.joint == 'waist'
    assert steps.inside.rad == pytest.approx(0.01)


@pytest.mark.parametrize('late_s', [-0.02, 0.0, 0.02])
def test_a_boundary_stamped_one_sample_off_still_owns_its_jump(late_s):
    commanded = ramp()
    commanded[20:, 0] += 0.3
    steps = boundary_steps(trace(commanded, [0.4 + late_s]))
    assert steps.boundary.rad == pytest.approx(0.31)
    assert steps.inside.rad == pytest.approx(0.01)


def test_a_gripper_in_metres_is_not_a_step_in_rad():
    commanded = ramp()
    commanded[20:, 1] += 0.3
    steps = boundary_steps(trace(commanded, [0.4], ('waist', 'left_gripper')))
    assert steps.boundary.joint == 'waist'


def test_samples_that_are_missing_are_no_step():
    commanded = ramp()
    commanded[20:23] = np.nan
    assert boundary_steps(trace(commanded, [0.4])).inside.rad == pytest.approx(0.01)


@pytest.mark.parametrize('starts_s', [(), (0.0,), (9.0,)], ids=['none', 'first', 'after the end'])
def test_without_a_boundary_there_is_no_number(starts_s):
    steps = boundary_steps(trace(ramp(), starts_s))
    assert (steps.boundary, steps.boundaries) == (None, 0)


@pytest.mark.parametrize('rows', [0, 1])
def test_a_trace_too_short_for_a_step(rows):
    steps = boundary_steps(trace(np.zeros((rows, 2)), [0.0]))
    assert (steps.boundary, steps.inside) == (None, None)
