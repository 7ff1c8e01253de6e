"""Whole calls on station frames: less work, more error; full budget, none."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.cache.states import ExpandedState, NeuronMasks
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.plans import CachedPlan, Observed, RecordPlan
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import Observation

# Five renderings of two episodes and some 500 whole calls.
pytestmark = pytest.mark.timeout(300)

FRAMES = 32
STEPS = 12
# Seeds of the reference episodes; the first of them also leave neuron masks.
REFERENCES = (20, 30, 40, 50)


@dataclass(frozen=True)
class Frame:
    """A call and the same moment of other episodes, with the cube at other places."""

    observed: Observed
    states: tuple[ExpandedState, ...]
    masks: NeuronMasks
    noise: np.ndarray
    dense: np.ndarray


@pytest.fixture(scope='module')
def engine():
    model = untrained(0)
    for layer in model.expert_layers:
        for norm in (layer.input_norm, layer.post_attention_norm):
            norm.dense.bias[2 * norm.dense.in_features :].fill_(1.0)
    return EagerEngine(model, torch.device('cpu'), torch.float32, 10)


def station_frames(engine, seed):
    """Frames of two expert episodes, every STEPS control steps."""
    expert, frames = Expert(), []
    with AlohaStation(96) as station:
        for episode in range(2):
            station.reset(seed + episode)
            plan = expert.plan(station.cube_position()[:2])
            for start in range(0, FRAMES // 2 * STEPS, STEPS):
                joints = dict(zip(station.JOINT_NAMES, station.joint_positions(), strict=True))
                observation = Observation(
                    station.render(), joints, station.task.instruction, station.time_s
                )
                frames.append(prepare(observation, engine.model))
                for targets in plan[start : start + STEPS]:
                    station.step(targets)
    return frames


@pytest.fixture(scope='module')
def frames(engine):
    made = []
    references = [station_frames(engine, seed) for seed in REFERENCES]
    columns = zip(station_frames(engine, 10), *references, strict=True)
    for number, (inputs, *others) in enumerate(columns):
        noise, other = np.random.default_rng(number).normal(size=(2, 50, 14)).astype(np.float32)
        record = RecordPlan((0, 5), 'contribution')
        masks = engine.run(engine.observe(others[0]), record, other).recorded.masks
        observed = engine.observe(inputs)
        states = tuple(map(engine.expand, others))
        dense = engine.run(observed, None, noise).normalised
        made.append(Frame(observed, states, masks, noise, dense))
    assert len(made) == FRAMES
    return made


def mean_error(engine, frames, rho_p=1.0, references=1, action=lambda frame: None):
    """Mean absolute difference to dense over all frames, normalised units."""
    errors = []
    for frame in frames:
        plan = CachedPlan(frame.states[:references], rho_p, action(frame))
        actions = engine.run(frame.observed, plan, frame.noise).normalised
        errors.append(np.abs(actions - frame.dense).mean())
    return float(np.mean(errors))


def test_error_falls_as_rho_p_grows(engine, frames):
    errors = [mean_error(engine, frames, rho_p) for rho_p in (0.0, 0.3, 0.6, 1.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > errors[-2] > 0
    assert errors[-1] == 0


def test_error_falls_with_the_number_of_references(engine, frames):
    errors = [mean_error(engine, frames, 0.2, references) for references in (1, 2, 4)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.8 * errors[0]


def test_error_falls_as_rho_n_grows(engine, frames):
    def masked(rho_n):
        return lambda frame: ActionPlan((0, 5), rho_n, masks=frame.masks)

    errors = [mean_error(engine, frames, action=masked(k / 16)) for k in (2, 6, 11, 16)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0
    assert errors[-1] < 1e-5


@pytest.mark.parametrize('rho_n', [0.0, 0.5], ids=['skipped', 'masked'])
def test_error_falls_with_more_anchors(engine, frames, rho_n):
    def anchored(anchors):
        return lambda frame: ActionPlan(anchors, rho_n, 'extrapolate', 'anchor', 'delta')

    choices = ((0, 5), (0, 2, 5, 8), (0, 1, 2, 4, 6, 8))
    errors = [mean_error(engine, frames, action=anchored(anchors)) for anchors in choices]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] > 0
