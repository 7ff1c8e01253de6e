"""A planted offset gives the planted action error."""

import dataclasses

import numpy as np
import pytest
from tiny_fixtures import MINI

from rmuscle_ros.errors import RecordError
from rmuscle_ros.eval.oracle import DenseOracle
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.types import ActionChunk

NOISE = np.random.default_rng(5).standard_normal((MINI.horizon, 14)).astype(np.float32)
OTHER = np.random.default_rng(6).standard_normal((MINI.horizon, 14)).astype(np.float32)


@pytest.fixture
def oracle(engine):
    # Joints whose actions are relative to the state must not change the unit.
    engine.model.action_relative[3:9] = 1.0
    return DenseOracle(engine)


@pytest.fixture
def observation(make_observation):
    return make_observation(2)


@pytest.fixture
def dense_chunk(engine, oracle, observation):
    inputs = prepare(observation, engine.model)
    actions = engine.run(engine.observe(inputs), noise=NOISE).actions
    return ActionChunk(actions, MINI.joint_names, 0.02, 0.0, None)


def shifted(chunk, offset):
    return dataclasses.replace(chunk, actions=chunk.actions + offset)


def test_the_dense_answer_has_no_error(oracle, observation, dense_chunk):
    assert oracle.error(observation, NOISE, dense_chunk) == 0.0


def test_an_offset_of_a_tenth_of_the_deviation_is_an_error_of_a_tenth(
    oracle, observation, dense_chunk, engine
):
    std = engine.model.action_std.numpy()
    assert std.max() > 10 * std.min()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], dense_chunk.actions.shape)
    chunk = shifted(dense_chunk, 0.1 * std * signs)
    assert oracle.error(observation, NOISE, chunk) == pytest.approx(0.1, rel=1e-3)


def test_every_row_and_joint_counts_alike(oracle, observation, dense_chunk, engine):
    offset = np.zeros_like(dense_chunk.actions)
    offset[4, 13] = engine.model.action_std[13]
    error = oracle.error(observation, NOISE, shifted(dense_chunk, offset))
    assert error == pytest.approx(1 / offset.size, rel=1e-3)


def test_joints_in_another_order_are_the_same_answer(oracle, observation, dense_chunk):
    chunk = dataclasses.replace(
        dense_chunk,
        actions=dense_chunk.actions[:, ::-1],
        joint_names=tuple(reversed(MINI.joint_names)),
    )
    assert oracle.error(observation, NOISE, chunk) == 0.0


def test_other_noise_is_another_answer_and_its_distance_the_spread(
    oracle, observation, dense_chunk
):
    spread = oracle.spread(observation, NOISE, OTHER)
    assert spread > 0
    assert oracle.spread(observation, NOISE, NOISE) == 0.0
    assert oracle.error(observation, OTHER, dense_chunk) == pytest.approx(spread)


def test_a_chunk_of_another_policy_is_refused(oracle, observation, dense_chunk):
    other = dataclasses.replace(dense_chunk, joint_names=('x', *MINI.joint_names[1:]))
    with pytest.raises(RecordError, match='compare modes of one policy'):
        oracle.error(observation, NOISE, other)
    short = dataclasses.replace(dense_chunk, actions=dense_chunk.actions[:3])
    with pytest.raises(RecordError, match=r'a chunk is \(3, 14\), expected \(7, 14\)'):
        oracle.error(observation, NOISE, short)
