"""Control steps keep their pace on average, late ones are reported, none is lost."""

import threading

import pytest

from rmuscle_ros.ros.station.schedule import Schedule, StepTimes


class FakeTime:
    """A clock, and a stop event whose wait lets it pass, a little longer than asked for."""

    OVERSLEEP_S = 0.0004

    def __init__(self):
        self.now_s = 100.0

    def clock(self):
        return self.now_s

    def is_set(self):
        return False

    def wait(self, seconds):
        self.now_s += seconds + self.OVERSLEEP_S
        return False


def schedule_of(fake, **options):
    return Schedule(0.02, clock=fake.clock, **options)


def test_due_times_do_not_drift_when_each_step_takes_a_while():
    fake = FakeTime()
    schedule = schedule_of(fake)
    begins = []
    for _ in range(50):
        schedule.wait(fake)
        begins.append(fake.now_s)
        fake.now_s += 0.013
    assert begins == pytest.approx([100.0004 + 0.02 * i for i in range(50)])


def test_a_late_step_is_reported_and_the_next_ones_catch_up():
    fake = FakeTime()
    schedule = schedule_of(fake)
    schedule.wait(fake)
    fake.now_s += 0.07
    lags = [schedule.wait(fake) for _ in range(5)]
    assert lags == pytest.approx([0.05, 0.03, 0.01, 0.0, 0.0], abs=0.002)
    assert schedule.moved == 0


def test_after_a_long_pause_the_due_times_move_and_that_is_counted():
    fake = FakeTime()
    schedule = schedule_of(fake, max_lag_s=1.0)
    schedule.wait(fake)
    fake.now_s += 30.0
    assert schedule.wait(fake) == pytest.approx(29.98, abs=0.001)
    assert schedule.moved == 1
    assert schedule.wait(fake) == pytest.approx(0.0, abs=0.001)


def test_a_set_stop_event_ends_the_wait():
    stop = threading.Event()
    stop.set()
    assert Schedule(0.02).wait(stop) is None


def test_timing_is_taken_once_and_is_none_without_samples():
    times = StepTimes()
    times.step(0.001, 0.004)
    times.step(0.005, 0.002)
    times.render(0.03)
    timing = times.take()
    assert (timing.steps, timing.images) == (2, 1)
    assert timing.lag_max_ms == pytest.approx(5.0)
    assert timing.step_p50_ms == pytest.approx(3.0)
    assert times.take().lag_max_ms is None
