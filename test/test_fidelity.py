"""Whole calls on station frames: less work, more error; full budget, none."""

import numpy as np
import pytest
import torch

from rmuscle_ros.engine.eager import CachedPlan, EagerEngine, RecordPlan
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import Observation

FRAMES = 32
STEPS = 12


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
def pairs(engine):
    """(observed, reference state, masks, noise, dense actions) of each frame.

    The reference of a frame is the same moment of an episode with another cube position.
    """
    made = []
    frames, references = station_frames(engine, 10), station_frames(engine, 20)
    for number, (frame, reference) in enumerate(zip(frames, references, strict=True)):
        rng = np.random.default_rng(number)
        noise, other = rng.normal(size=(2, 50, 14)).astype(np.float32)
        recorded = engine.run(engine.observe(reference), RecordPlan(5, 'contribution'), other)
        observed = engine.observe(frame)
        dense = engine.run(observed, None, noise).normalised
        made.append((observed, engine.expand(reference), recorded.masks, noise, dense))
    assert len(made) == FRAMES
    return made


def mean_error(engine, pairs, rho_p, rho_n):
    """Mean absolute difference to dense over all frames, normalised units."""
    errors = []
    for observed, state, masks, noise, dense in pairs:
        plan = CachedPlan(state, masks if rho_n else None, rho_p, rho_n or 1.0)
        errors.append(np.abs(engine.run(observed, plan, noise).normalised - dense).mean())
    return float(np.mean(errors))


def test_error_falls_as_rho_p_grows(engine, pairs):
    errors = [mean_error(engine, pairs, rho_p, None) for rho_p in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > errors[-2] > 0
    assert errors[-1] == 0


def test_error_falls_as_rho_n_grows(engine, pairs):
    errors = [mean_error(engine, pairs, 1.0, k / 16) for k in (2, 5, 8, 12, 16)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0
    assert errors[-1] < 1e-5
