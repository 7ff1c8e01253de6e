"""The loop around the policy, on a clock that the test moves. No ROS, no threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_policy import CAMERAS, HORIZON, JOINTS, PERIOD_S, FakePolicy

from rmuscle_ros.errors import ObservationError, RebuildError
from rmuscle_ros.ros.faults import OBSERVATIONS, POLICY, SCHEDULE, Faults, Level
from rmuscle_ros.ros.pilot import Pilot
from rmuscle_ros.ros.sampling import JOINTS as JOINT_SOURCE
from rmuscle_ros.ros.sampling import Limits, Now, Sampler
from rmuscle_ros.ros.settings import EpisodeSettings, NodeSettings
from rmuscle_ros.types import Observation, Reason

MEASURED = dict.fromkeys(JOINTS, 0.5)
PIXELS = np.zeros((4, 4, 3), np.uint8)


class Bench:
    """A pilot with a robot made of lists. The policy takes ``latency_s`` on the test's clock."""

    def __init__(self, **settings):
        self.time_s = 100.0
        self.latency_s = 0.04
        self.sensing = True
        self.during_call = lambda: None
        self.policy = FakePolicy(latency_s=0.0)
        self.sampler = Sampler(
            {name: f'/{name}' for name in CAMERAS}, '/joints', Limits(0.3, 0.2, 0.05)
        )
        self.sent, self.holds, self.log = [], [], []
        self.faults = Faults(lambda level, text: self.log.append((level, text)))
        settings = {'instruction': 'lift', 'execution_horizon': 10, 'blend_rows': 2, **settings}
        self.pilot = Pilot(
            self.policy,
            self,
            self,
            NodeSettings(**settings),
            self.faults,
            self.now,
            self.log.append,
        )
        infer = self.policy.infer

        def timed(observation):
            self.pass_time(self.latency_s, step=False)
            during, self.during_call = self.during_call, lambda: None
            during()
            return infer(observation)

        self.policy.infer = timed

    def now(self) -> Now:
        return Now(self.time_s, self.time_s - 50.0)

    def observe(self, instruction: str) -> Observation:
        selection = self.sampler.select(self.now())
        return Observation(selection.images, selection.joints, instruction, selection.stamp_s)

    def send(self, chunk, plan) -> None:
        self.sent.append((self.time_s, plan))

    def hold(self, positions) -> None:
        self.holds.append((self.time_s, dict(positions)))

    def sense(self) -> None:
        for name in CAMERAS:
            self.sampler.add(name, self.time_s, self.now(), PIXELS)
        self.sampler.add(JOINT_SOURCE, self.time_s, self.now(), MEASURED)

    def pass_time(self, duration_s: float, *, step: bool = True) -> None:
        """Sensors every 10 ms, the watch every 50, steps whenever the thread is free."""
        end_s = self.time_s + duration_s
        while self.time_s < end_s - 1e-9:
            self.time_s = round(self.time_s + 0.01, 6)
            if self.sensing:
                self.sense()
            if round(self.time_s * 100) % 5 == 0:
                self.pilot.watch()
            if step:
                self.pilot.step()

    def fly(self, duration_s: float) -> None:
        self.pilot.activate()
        self.pass_time(duration_s)

    def levels(self, component: str) -> list[Level]:
        return [fault.level for fault in self.faults.of(component)]

    def reason(self, component: str) -> str:
        return '; '.join(fault.reason for fault in self.faults.of(component))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_one_chunk_per_execution_horizon(bench):
    bench.fly(4.0)
    gaps_s = np.diff([time_s for time_s, _ in bench.sent[3:]])
    np.testing.assert_allclose(gaps_s, 10 * PERIOD_S, atol=0.021)
    assert not bench.holds
    assert not any(bench.faults.of(name) for name in (POLICY, OBSERVATIONS, SCHEDULE))


def test_it_keeps_which_share_its_calls_recomputed(bench):
    infer = bench.policy.infer

    def cached(observation):
        chunk = infer(observation)
        origin = replace(chunk.provenance, reason=Reason.CACHED, rho_p=0.4)
        return replace(chunk, provenance=origin)

    bench.policy.infer = cached
    bench.fly(1.0)
    assert bench.pilot.shares.count().calls == {0.4: len(bench.sent)}


def test_calls_do_not_start_earlier_than_needed(bench):
    bench.fly(4.0)
    assert len(bench.policy.observations) == pytest.approx(4.0 / (10 * PERIOD_S), abs=3)


def test_no_instruction_no_motion():
    bench = Bench(instruction='')
    bench.fly(0.5)
    assert not bench.policy.observations
    assert 'no instruction' in bench.reason(OBSERVATIONS)
    bench.pilot.instruction = 'lift'
    bench.pass_time(0.5)
    assert bench.sent
    assert not bench.faults.of(OBSERVATIONS)


def test_nothing_is_sent_before_activation(bench):
    bench.pass_time(1.0)
    assert not bench.policy.observations


def test_starvation_holds_once_and_says_why_then_recovers(bench):
    bench.fly(1.0)
    bench.sensing = False
    bench.pass_time(0.9)
    assert Level.ERROR not in bench.levels(OBSERVATIONS)
    bench.pass_time(3.0)
    assert bench.levels(OBSERVATIONS) == [Level.ERROR]
    assert 'cam_high: last received' in bench.reason(OBSERVATIONS)
    assert len([time_s for time_s, _ in bench.holds if time_s > 101.9]) == 1
    sent = len(bench.sent)
    bench.sensing = True
    bench.pass_time(1.0)
    assert not bench.faults.of(OBSERVATIONS)
    assert len(bench.sent) > sent
    assert bench.sent[sent][1].skipped_rows == 0


def test_hold_is_where_the_arm_was_measured(bench):
    bench.fly(1.0)
    bench.pilot.deactivate()
    assert bench.holds == [(bench.time_s, MEASURED)]


def test_hold_without_fresh_joints_is_the_target_of_that_moment(bench):
    bench.fly(1.0)
    plan = bench.sent[-1][1]
    bench.sensing = False
    bench.pass_time(0.21, step=False)
    bench.pilot.deactivate()
    positions = bench.holds[-1][1]
    assert list(positions.values()) == pytest.approx(plan.at(bench.time_s).tolist())


def test_no_joint_state_ever_means_no_hold_and_an_error(bench):
    bench.sensing = False
    bench.fly(2.0)
    assert not bench.holds
    assert 'no hold command' in bench.reason(SCHEDULE)


def test_call_longer_than_the_rows_left_holds_reports_and_recovers(bench):
    bench.fly(1.0)
    bench.latency_s = 1.0
    bench.pass_time(0.5)
    assert Level.ERROR in bench.levels(SCHEDULE)
    assert 'longer than the rows that were left' in bench.reason(SCHEDULE)
    assert bench.pilot.counters.overruns == 1
    assert len(bench.holds) == 1
    bench.latency_s = 0.04
    bench.pass_time(4.0)
    assert not bench.faults.of(SCHEDULE)
    assert len(bench.holds) == 1


def test_calls_longer_than_a_chunk_are_an_error_all_the_time(bench):
    bench.latency_s = HORIZON * PERIOD_S + 0.1
    bench.fly(5.0)
    assert 'calls take 0.500 s' in bench.reason(SCHEDULE)
    assert Level.ERROR in bench.levels(SCHEDULE)
    assert all(plan.skipped_rows == 0 for _, plan in bench.sent[:1])


def test_chunk_of_a_call_that_outlived_its_activation_is_dropped(bench):
    bench.fly(1.0)
    sent = len(bench.sent)
    bench.during_call = bench.pilot.deactivate
    bench.pass_time(0.5)
    assert len(bench.sent) == sent
    assert bench.pilot.counters.dropped_chunks == 1
    assert len(bench.holds) == 1


def test_new_episode_stops_the_arm_and_drops_chunk_and_observations(bench):
    bench.fly(1.0)
    sent = len(bench.sent)
    bench.during_call = bench.pilot.begin_episode
    bench.pass_time(0.2)
    assert len(bench.holds) == 1
    began_s = bench.holds[0][0]
    assert bench.pilot.counters.dropped_chunks == 1
    assert bench.policy.observations[sent].stamp_s < began_s
    assert all(o.stamp_s >= began_s for o in bench.policy.observations[sent + 1 :])
    assert bench.sent[sent][0] > began_s
    assert bench.sent[sent][1].skipped_rows == 0


def test_same_observation_is_not_used_twice(bench):
    bench.fly(0.5)
    stamps_s = [observation.stamp_s for observation in bench.policy.observations]
    assert len(set(stamps_s)) == len(stamps_s)


def test_policy_that_refuses_an_observation_holds_with_its_reason(bench):
    bench.fly(1.0)
    bench.policy.fault = ObservationError('cam_low: 3 channels expected')
    bench.pass_time(1.0)
    assert bench.reason(POLICY) == 'cam_low: 3 channels expected'
    assert len(bench.holds) == 1
    bench.policy.fault = None
    bench.pass_time(0.5)
    assert not bench.faults.of(POLICY)


def test_unexpected_exception_stops_calls_until_an_episode_begins(bench):
    bench.fly(1.0)
    bench.policy.fault = ZeroDivisionError('bug')
    bench.pass_time(1.0)
    calls = len(bench.policy.observations)
    assert 'ZeroDivisionError: bug' in bench.reason(POLICY)
    assert any('Traceback' in line for line in bench.log)
    assert len(bench.holds) == 1
    bench.pass_time(3.0)
    assert len(bench.policy.observations) == calls
    bench.policy.fault = None
    bench.pilot.begin_episode()
    bench.pass_time(0.5)
    assert len(bench.policy.observations) > calls
    assert not bench.faults.of(POLICY)


def test_dead_rebuild_thread_holds(bench):
    bench.fly(1.0)
    bench.policy.fault = RebuildError('rebuild thread died: out of memory')
    bench.pass_time(1.0)
    assert bench.levels(POLICY) == [Level.ERROR]
    assert 'out of memory' in bench.reason(POLICY)
    assert len(bench.holds) == 1
    assert not bench.policy.tuned


def test_dead_rebuild_thread_goes_on_densely_if_so_configured():
    bench = Bench(on_rebuild_error='dense')
    bench.fly(1.0)
    bench.policy.fault = RebuildError('rebuild thread died')
    tuned = []

    def tune(**changes):
        tuned.append(changes)
        bench.policy.fault = None

    bench.policy.tune = tune
    bench.pass_time(0.3)
    assert tuned == [{'enabled': False}]
    assert bench.pilot.cache_disabled
    sent = len(bench.sent)
    bench.pass_time(1.0)
    assert len(bench.sent) > sent
    assert 'dense from now on' in bench.reason(POLICY)


def test_rebuild_error_that_stays_when_dense_holds():
    bench = Bench(on_rebuild_error='dense')
    bench.fly(1.0)
    bench.policy.fault = RebuildError('rebuild thread died')
    bench.pass_time(2.0)
    assert len(bench.holds) == 1
    assert 'holds until' in bench.reason(POLICY)


def test_looping_station_ends_episodes_by_time_without_stopping_the_arm():
    bench = Bench(episode=EpisodeSettings(timeout_s=1.0))
    bench.fly(3.5)
    assert bench.policy.ends == 3
    assert not bench.holds
    assert any('episode.timeout_s' in str(line) for line in bench.log)


def test_a_clock_set_back_holds_where_measured_and_goes_on(bench):
    """NTP sets the system's clock back: no jump callback tells, and calls would be put off."""
    bench.fly(1.0)
    bench.time_s -= 30.0
    sent = len(bench.sent)
    bench.pass_time(1.0)
    assert bench.holds[0][1] == MEASURED
    assert len(bench.sent) > sent
    assert any('set back by 29.' in str(line) for line in bench.log)


def test_a_dead_rebuild_thread_does_not_promise_that_a_reset_helps(bench):
    bench.fly(1.0)
    bench.policy.fault = RebuildError('gone')
    bench.pass_time(1.0)
    assert 'the arm holds until the node is configured anew' in bench.reason(POLICY)
