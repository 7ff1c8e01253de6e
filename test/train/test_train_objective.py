"""What is trained is what runs: same prefix, same flow, same units as the engine's."""

import numpy as np
import pytest
import torch
from training_fixtures import MINI

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.train.objective import CubeHead, FlowDraw, Objective, draw_flow, normalise
from rmuscle_ros.train.samples import Batch
from rmuscle_ros.train.shortcut import CUBE_JOINTS, correlation, predict
from rmuscle_ros.types import ModelInputs


@pytest.fixture
def objective(make_run):
    run = make_run()
    model = run.state.ema
    return Objective(model, CubeHead(MINI.vision_width, MINI.width), DenseFfn(model.ffn_modules()))


@pytest.fixture
def batch():
    rng = np.random.default_rng(2)
    return Batch(
        instruction=TASKS['lift_cube'].instruction,
        images=torch.from_numpy(rng.integers(0, 256, (3, 3, 12, 12, 3), np.uint8)),
        states=torch.from_numpy(rng.normal(size=(3, 14)).astype(np.float32)),
        targets=torch.from_numpy(rng.normal(size=(3, 7, 14)).astype(np.float32)),
        cubes=torch.from_numpy(rng.normal(size=(3, 3)).astype(np.float32)),
    )


def test_predicts_what_the_engine_runs(objective, batch):
    ffn = DenseFfn(objective.model.ffn_modules())
    predicted = predict(objective, batch, ffn)
    noise = torch.randn(batch.targets.shape, generator=torch.Generator().manual_seed(0))
    engine = EagerEngine(objective.model, torch.device('cpu'), torch.float32, 10)
    for row in range(3):
        inputs = ModelInputs(
            batch.images[row].numpy(), MINI.cameras, batch.states[row].numpy(), batch.instruction
        )
        result = engine.run(engine.observe(inputs), None, noise[row].numpy())
        np.testing.assert_allclose(predicted[row].numpy(), result.actions, atol=1e-5)


def test_normalised_targets_come_back_in_joint_units(objective, batch):
    model = objective.model
    normalised = normalise(model, batch.targets, batch.states)
    inputs = ModelInputs(batch.images[1].numpy(), MINI.cameras, batch.states[1].numpy(), '')
    back = model.unnormalise(normalised[1:2], inputs)
    torch.testing.assert_close(back, batch.targets[1])


def test_the_loss_is_zero_for_the_true_velocity(objective, batch, monkeypatch):
    draw = draw_flow(3, 2, (7, 14), (1, 2))
    actions = normalise(objective.model, batch.targets, batch.states)[:, None]
    seen = []

    def true_velocity(cache, noisy, conditions, step, ffn):
        seen.append((cache.kv[0].shape[1], noisy))
        return (draw.noise - actions).flatten(0, 1)

    monkeypatch.setattr(objective.model, 'denoise', true_velocity)
    flow, cube = objective.flow(batch, draw)
    assert torch.equal(flow, torch.zeros(3))
    assert cube.shape == (3,)
    rows, noisy = seen[0]
    assert rows == 6
    # One Euler step from x_t with the true velocity ends at the actions.
    ends = noisy.unflatten(0, (3, 2)) - draw.times[..., None, None] * (draw.noise - actions)
    torch.testing.assert_close(ends, actions.expand(-1, 2, -1, -1), rtol=1e-4, atol=1e-4)


def test_flow_times_favour_the_noise():
    draw = draw_flow(2000, 1, (1, 1), (0,))
    assert draw.times.min() > 0 and draw.times.max() <= 1
    assert draw.times.mean() == pytest.approx(0.6, abs=0.02)
    assert torch.equal(draw.times, draw_flow(2000, 1, (1, 1), (0,)).times)
    assert not torch.equal(draw.times, draw_flow(2000, 1, (1, 1), (1,)).times)


def test_a_zeroed_state_row_hides_the_state(objective, batch):
    other = Batch(batch.instruction, batch.images, batch.states + 1, batch.targets, batch.cubes)
    with torch.no_grad():
        assert torch.equal(objective.blind(batch), objective.blind(other))
        draw = FlowDraw(torch.ones(3, 1, 7, 14), torch.full((3, 1), 0.5))
        assert not torch.equal(objective.flow(batch, draw)[1], objective.flow(other, draw)[1])


@pytest.mark.parametrize(('guessed', 'low', 'high'), [(False, 0.999, 1.0), (True, -1.0, 0.0)])
def test_the_correlation_tells_looking_from_guessing(
    objective, batch, monkeypatch, guessed, low, high
):
    targets = batch.targets.clone()
    if guessed:
        targets[:, -1, CUBE_JOINTS[1]] = -targets[:, -1, CUBE_JOINTS[1]]
    monkeypatch.setattr('rmuscle_ros.train.shortcut.predict', lambda *args: targets)
    ffn = DenseFfn(objective.model.ffn_modules())
    assert low <= correlation(objective, batch, ffn) <= high
