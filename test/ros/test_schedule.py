"""Chunks joined in time. Each test names the field case it pins."""

from __future__ import annotations

import numpy as np
import pytest
from fake_policy import HORIZON, PERIOD_S, make_chunk

from rmuscle_ros.ros.schedule import LEAD_S, Latency, Schedule

T0_S = 100.0


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(execution_horizon=10, blend_rows=0, horizon=HORIZON, period_s=PERIOD_S)


def with_latency(schedule: Schedule, latency_s: float) -> Schedule:
    for call in range(2):
        schedule.latency.add(call * 0.2, call * 0.2 + latency_s)
    return schedule


def test_first_chunk_starts_at_row_0_now_however_late_it_is(schedule):
    """Skipping rows while the arm stood still made it jump."""
    plan = schedule.accept(make_chunk(T0_S), now_s=T0_S + 0.3)
    assert plan.skipped_rows == 0
    assert plan.rows[0, 0] == 0.0
    assert plan.times_s[0] == pytest.approx(T0_S + 0.3 + PERIOD_S)


def test_rows_consumed_during_the_call_are_skipped_and_keep_their_time(schedule):
    schedule.accept(make_chunk(T0_S), now_s=T0_S)
    plan = schedule.accept(make_chunk(T0_S + 0.1), now_s=T0_S + 0.19)
    assert plan.skipped_rows == 4
    assert plan.times_s[0] == pytest.approx(T0_S + 0.1 + 5 * PERIOD_S)
    assert len(plan.rows) == HORIZON - 4


def test_observation_older_than_the_motion_skips_only_what_was_executed(schedule):
    """Two rows are past by the clock alone: the arm began to move only then."""
    schedule.accept(make_chunk(T0_S), now_s=T0_S + 0.04)
    plan = schedule.accept(make_chunk(T0_S), now_s=T0_S + 0.1)
    assert plan.skipped_rows == 3
    assert plan.times_s[0] == pytest.approx(T0_S + 0.1 + PERIOD_S)


def test_chunk_after_an_overrun_goes_on_where_the_arm_stopped(schedule):
    first = schedule.accept(make_chunk(T0_S), now_s=T0_S)
    late_s = first.end_s + 1.0
    assert schedule.ended(late_s)
    schedule.halt(late_s)
    plan = schedule.accept(make_chunk(T0_S + 0.3), now_s=late_s)
    assert plan.skipped_rows == 5
    assert plan.times_s[0] == pytest.approx(late_s + PERIOD_S)


def test_halt_means_that_no_more_rows_are_consumed(schedule):
    schedule.accept(make_chunk(T0_S), now_s=T0_S)
    schedule.halt(T0_S + 0.1)
    plan = schedule.accept(make_chunk(T0_S + 0.2), now_s=T0_S + 0.4)
    assert plan.skipped_rows == 0
    assert schedule.plan is plan


def test_chunk_with_all_rows_past_is_refused(schedule):
    schedule.accept(make_chunk(T0_S, horizon=HORIZON), now_s=T0_S)
    assert schedule.accept(make_chunk(T0_S, horizon=3), now_s=T0_S + 0.1) is None


def test_next_call_is_due_when_horizon_minus_latency_rows_are_consumed(schedule):
    schedule.accept(make_chunk(T0_S), now_s=T0_S)
    with_latency(schedule, 0.06)
    rows = 10 - 0.06 / PERIOD_S
    assert schedule.due_s() == pytest.approx(T0_S + rows * PERIOD_S)


def test_next_call_is_due_at_once_without_a_plan_or_an_estimate(schedule):
    assert schedule.due_s() is None
    schedule.accept(make_chunk(T0_S), now_s=T0_S)
    assert schedule.due_s() is None


def test_long_execution_horizon_leaves_rows_to_blend_with():
    schedule = Schedule(HORIZON, blend_rows=4, horizon=HORIZON, period_s=PERIOD_S)
    schedule.accept(make_chunk(T0_S), now_s=T0_S)
    with_latency(schedule, 0.06)
    assert schedule.due_s() == pytest.approx(T0_S + (HORIZON - 4) * PERIOD_S - 0.06)


def test_execution_horizon_is_live(schedule):
    schedule.accept(make_chunk(T0_S), now_s=T0_S)
    with_latency(schedule, 0.06)
    schedule.execution_horizon = 5
    assert schedule.due_s() == pytest.approx(T0_S + 5 * PERIOD_S - 0.06)


@pytest.mark.parametrize('jitter_s', [0.0, 0.013])
@pytest.mark.parametrize('latency_s', [0.02, 0.05, 0.17])
def test_chunks_meet_without_a_pause_or_a_jump(latency_s, jitter_s):
    """A policy that plans along one line: the arm must follow that line through all chunks."""
    schedule = Schedule(10, blend_rows=3, horizon=HORIZON, period_s=PERIOD_S)
    random = np.random.default_rng(0)
    now_s, times_s, targets = T0_S, np.array([T0_S]), np.zeros(1)
    for call in range(30):
        now_s = max(now_s, schedule.due_s() or now_s)
        stamp_s = now_s - 0.01
        where = np.interp(stamp_s, times_s, targets)
        ramp = where + np.arange(1, HORIZON + 1) * PERIOD_S
        actions = np.repeat(ramp[:, None], 4, axis=1).astype(np.float32)
        start_s, now_s = now_s, now_s + latency_s + random.uniform(0.0, jitter_s)
        assert call == 0 or now_s < times_s[-1], 'the arm ran out of rows'
        plan = schedule.accept(make_chunk(stamp_s, actions), now_s)
        schedule.latency.add(start_s, now_s)
        here = np.interp(now_s, times_s, targets)
        keep = times_s < now_s
        times_s = np.concatenate([times_s[keep], [now_s], plan.times_s])
        targets = np.concatenate([targets[keep], [here], plan.rows[:, 0]])
    moving = times_s[1:] > T0_S + latency_s + jitter_s
    speed = (np.diff(targets) / np.diff(times_s))[moving]
    np.testing.assert_allclose(speed, 1.0, atol=1e-3)


def test_overlap_is_blended_linearly():
    schedule = Schedule(10, blend_rows=3, horizon=HORIZON, period_s=PERIOD_S)
    zeros = np.zeros((HORIZON, 4), np.float32)
    schedule.accept(make_chunk(T0_S, zeros), now_s=T0_S)
    plan = schedule.accept(make_chunk(T0_S + 0.1, zeros + 1.0), now_s=T0_S + 0.1)
    np.testing.assert_allclose(plan.rows[:5, 0], [0.25, 0.5, 0.75, 1.0, 1.0])


def test_nothing_is_blended_into_a_plan_that_has_ended():
    schedule = Schedule(10, blend_rows=3, horizon=HORIZON, period_s=PERIOD_S)
    zeros = np.zeros((HORIZON, 4), np.float32)
    first = schedule.accept(make_chunk(T0_S, zeros), now_s=T0_S)
    plan = schedule.accept(make_chunk(first.end_s + 1.0, zeros + 1.0), now_s=first.end_s + 1.0)
    assert plan.rows[0, 0] == 1.0


def test_every_plan_satisfies_the_controller():
    """First point after the start, strictly increasing, ends in the future."""
    random = np.random.default_rng(1)
    schedule = Schedule(10, blend_rows=3, horizon=HORIZON, period_s=PERIOD_S)
    now_s = T0_S
    for _ in range(300):
        now_s += random.uniform(0.0, 0.6)
        if random.random() < 0.1:
            schedule.halt(now_s)
        plan = schedule.accept(make_chunk(now_s - random.uniform(0.0, 0.5)), now_s)
        if plan is None:
            continue
        assert plan.times_s[0] >= now_s + min(LEAD_S, PERIOD_S)
        assert np.all(np.diff(plan.times_s) > 0.0)
        assert plan.end_s > now_s
        assert len(plan.times_s) == len(plan.rows) == HORIZON - plan.skipped_rows


def test_plan_interpolates_between_rows(schedule):
    plan = schedule.accept(make_chunk(T0_S), now_s=T0_S)
    assert plan.at(plan.times_s[3] + 0.5 * PERIOD_S)[0] == pytest.approx(3.5)
    assert plan.at(plan.end_s + 1.0)[0] == HORIZON - 1
    assert plan.at(T0_S - 1.0)[0] == 0.0


class TestLatency:
    def test_first_call_and_calls_after_idling_do_not_count(self):
        latency = Latency(idle_after_s=1.0)
        latency.add(0.0, 0.9)
        assert latency.estimate_s is None
        latency.add(1.0, 1.1)
        latency.add(9.0, 9.9)
        assert latency.estimate_s == pytest.approx(0.1)

    def test_old_calls_leave_the_window(self):
        latency = Latency(idle_after_s=1.0, window=10)
        for call in range(5):
            latency.add(float(call), call + 0.8)
        for call in range(5, 15):
            latency.add(float(call), call + 0.1)
        assert latency.estimate_s == pytest.approx(0.1)

    def test_two_slow_calls_of_ten_are_expected_again_one_is_not(self):
        latency = Latency(idle_after_s=1.0, window=10)
        for call in range(11):
            latency.add(float(call), call + (0.5 if call == 4 else 0.1))
        assert latency.estimate_s == pytest.approx(0.1)
        latency.add(11.0, 11.5)
        assert latency.estimate_s == pytest.approx(0.5)


def test_a_call_during_which_the_clock_went_back_has_no_duration():
    latency = Latency(idle_after_s=1.0)
    latency.add(10.0, 10.1)
    latency.add(10.2, 3.0)
    assert latency.estimate_s is None
    latency.add(3.1, 3.2)
    assert latency.estimate_s == pytest.approx(0.1)
