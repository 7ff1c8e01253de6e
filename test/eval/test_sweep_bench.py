"""Policies of a sweep share what must be equal, and nothing else."""

import types

import numpy as np
import pytest
from tiny_fixtures import MINI, strong

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval import workbench
from rmuscle_ros.eval.oracle import DenseOracle
from rmuscle_ros.eval.sweep.bench import DENSE_SETTING, SharedNoiseOracle, SweepBench
from rmuscle_ros.eval.sweep.factors import Setting
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.rollout import Rollout
from rmuscle_ros.types import Reason

STATION = types.SimpleNamespace(task=types.SimpleNamespace(name='stack'))
DEFAULT = Setting('default', {}, 3)


@pytest.fixture
def bench(monkeypatch, make_observation):
    """A bench with the miniature model and four recorded episodes."""
    loaded = LoadedModel(strong(untrained(3, MINI)), 'mini', 'mini', trained=True)
    monkeypatch.setattr(workbench, 'load_model', lambda checkpoint, seed: loaded)

    def roll_out(actor, station, seed):
        actor.reset()
        for call in range(3):
            actor.infer(make_observation(call, jitter=1 + seed % 7))
        return Rollout(station.task.name, seed, True, 4, 75, 3)

    monkeypatch.setattr(workbench, 'roll_out', roll_out)
    bench = SweepBench('')
    bench.record(STATION, 4)
    return bench


@pytest.fixture
def build(bench):
    """build(values, references=3) -> Policy, closed."""
    made = []

    def make(values=None, references=3):
        made.append(bench.policy(Setting('some', values or {}, references)))
        return made[-1]

    yield make
    for policy in made:
        policy.close()


def count_calls(monkeypatch, name):
    calls = []
    method = getattr(EagerEngine, name)

    def counted(*args, **kwargs):
        calls.append(args)
        return method(*args, **kwargs)

    monkeypatch.setattr(EagerEngine, name, counted)
    return calls


def test_equal_calibrations_are_measured_once(build, monkeypatch):
    measured = count_calls(monkeypatch, 'copy_errors')
    first = build()
    once = len(measured)
    assert once >= 3
    again = build({'cache.error_budget': 0.5, 'cache.rho_n': 0.5})
    assert len(measured) == once
    assert again.status().guard_slope == first.status().guard_slope
    build(references=4)
    assert len(measured) > once
    more = len(measured)
    build({'engine.denoise_steps': 5, 'cache.anchors': (0, 2)})
    assert len(measured) > more


def test_a_library_has_the_first_episodes_only(bench, build):
    assert build(references=2).status().library_episodes == 2
    dense = bench.policy(DENSE_SETTING)
    dense.close()
    assert dense.status().library_episodes == 0
    with pytest.raises(ConfigError, match='found 4 recorded episodes, expected 9'):
        build(references=9)


def masks(policy) -> list[NeuronMasks]:
    return [entry.masks for episode in policy._memory.library for entry in episode.entries]


def test_masks_are_of_the_setting_s_own_anchors_and_score(build, monkeypatch):
    half = {'cache.rho_n': 0.5}
    delta = masks(build({**half, 'cache.score': 'delta'}))
    contribution = masks(build({**half, 'cache.score': 'contribution'}))
    assert all(
        not np.array_equal(a.levels, b.levels) for a, b in zip(delta, contribution, strict=True)
    )
    replayed = count_calls(monkeypatch, 'run')
    paper = {**half, 'cache.anchors': (0, 5), 'cache.score': 'contribution'}
    assert {mask.anchors for mask in masks(build(paper))} == {(0, 5)}
    once = len(replayed)
    assert once == 9
    build({**paper, 'cache.rho_n': 0.25})
    build({'cache.anchors': (0, 7)})
    assert len(replayed) == once


def test_a_policy_of_the_bench_serves(build, make_observation):
    policy = build({'cache.guard': False, 'cache.drift_fence': False})
    reasons = []
    for call in range(3):
        reasons.append(policy.infer(make_observation(call, jitter=9)).provenance.reason)
        assert policy.drain(20)
    assert Reason.CACHED in reasons


def test_shared_noise_is_compared_with_the_dense_answer_to_it(bench, build, make_observation):
    shared = {'cache.noise': 'shared', 'cache.rho_p': 1.0, 'cache.anchors': tuple(range(10))}
    policy = build({**shared, 'cache.guard': False, 'cache.drift_fence': False})
    observation = make_observation(0, jitter=9)
    noise = np.random.default_rng(0).normal(size=(7, 14)).astype(np.float32)
    chunk = policy.infer(observation, noise=noise)
    assert chunk.provenance.reason is Reason.CACHED
    engine = bench.engine()
    oracle = SharedNoiseOracle(engine, bench.noises())
    assert oracle.error(observation, noise, chunk) < 1e-5
    assert DenseOracle(engine).error(observation, noise, chunk) > 0.01
    policy.tune(enabled=False)
    dense = policy.infer(observation, noise=noise)
    assert oracle.error(observation, noise, dense) < 1e-5, 'a call without reference: its own'
    assert oracle.error(observation, noise + 1, dense) > 0.01
