"""A policy's chunks meet the station at the right control steps."""

import types

import numpy as np
import pytest

from rmuscle_ros.rollout import SUCCESS_STEPS, roll_out
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import ActionChunk

SEED = 3


class PlanPolicy:
    """Answers with the expert's plan from the observation's time on, joints in another order."""

    def __init__(self, station):
        station.reset(SEED)
        self._plan = Expert().plan(station.cube_position()[:2], station.task.name)
        names = tuple(reversed(station.JOINT_NAMES))
        self.info = types.SimpleNamespace(joint_names=names, horizon=50)
        self.resets, self.noises, self.stamps = 0, [], []

    def reset(self):
        self.resets += 1

    def infer(self, observation, *, noise):
        self.noises.append(noise)
        self.stamps.append(observation.stamp_s)
        step = round(observation.stamp_s / 0.02)
        rows = np.arange(step, step + 50).clip(max=len(self._plan) - 1)
        actions = self._plan[rows][:, ::-1].astype(np.float32)
        return ActionChunk(actions, self.info.joint_names, 0.02, observation.stamp_s, None)


@pytest.fixture(scope='module')
def station():
    with AlohaStation(8) as station:
        yield station


@pytest.fixture
def policy(station):
    return PlanPolicy(station)


def test_executing_the_experts_rows_hands_the_cube_over(station, policy):
    chunks = []
    found = roll_out(policy, station, SEED, on_call=lambda *call: chunks.append(call[2]))
    assert found.success and found.lifted and found.max_reward == 4
    assert 130 < found.steps < 180
    assert found.calls == len(chunks) == -(-found.steps // 25)
    assert policy.stamps == pytest.approx([0.5 * call for call in range(found.calls)])
    assert policy.resets == 1
    assert station.success


def test_each_call_has_noise_of_its_own_that_the_seed_repeats(station, policy):
    roll_out(policy, station, SEED)
    first = list(policy.noises)
    roll_out(policy, station, SEED)
    assert all(map(np.array_equal, first, policy.noises[len(first) :]))
    assert not np.array_equal(first[0], first[1])
    assert first[0].shape == (50, 14) and first[0].dtype == np.float32


def test_a_listener_is_given_what_the_call_was_given_and_its_chunk(station, policy):
    calls = []
    roll_out(policy, station, SEED, on_call=lambda *call: calls.append(call))
    observations, noises, chunks = zip(*calls, strict=True)
    assert all(map(np.array_equal, noises, policy.noises))
    assert [observation.stamp_s for observation in observations] == policy.stamps
    assert [chunk.stamp_s for chunk in chunks] == policy.stamps


def test_an_episode_without_success_ends_after_twice_the_experts_time(station, policy):
    policy._plan = policy._plan[:1]
    found = roll_out(policy, station, SEED, execution_horizon=40)
    assert (found.success, found.lifted, found.max_reward) == (False, False, 0)
    assert (found.steps, found.calls) == (500 + 20, 13)


def test_one_lucky_contact_is_no_success(station, policy, monkeypatch):
    lucky = iter([True] * (SUCCESS_STEPS - 1) + [False] * 3 + [True] * 99)
    monkeypatch.setattr(AlohaStation, 'success', property(lambda self: next(lucky)))
    found = roll_out(policy, station, SEED)
    assert found.success
    assert found.steps == 2 * SUCCESS_STEPS - 1 + 3
