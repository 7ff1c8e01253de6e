"""Replays are faithful, and neurons are scored as the Action Cache would."""

import numpy as np
import pytest
import torch

from rmuscle_ros.eval.characterise.record import ANCHOR, Recorder, ScoreNeurons
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.nn.mlp import GatedMlp
from rmuscle_ros.types import ACTION, PREFIX, Site


@pytest.fixture
def noise():
    return np.random.default_rng(5).standard_normal((7, 14), np.float32)


def test_a_replay_computes_what_the_engine_computes(engine, make_inputs, noise):
    inputs = make_inputs(1)
    loaded = LoadedModel(engine.model, 'mini', 'mini', False)
    activity = Recorder(engine, loaded, group_len=5).replay(inputs, noise)
    dense = engine.run(engine.observe(inputs), None, noise)
    assert np.array_equal(activity.actions, dense.normalised)
    state = engine.expand(inputs)
    assert list(activity.x) == list(state.x)
    for site in state.x:
        assert torch.equal(activity.x[site], state.x[site])
        assert torch.equal(activity.y[site], state.y[site])


def test_scores_are_summed_between_anchors():
    """Five steps in groups of 3: anchors are steps 0 and 3, followers 1, 2 and 4."""
    generator = torch.Generator().manual_seed(0)
    site = Site(ACTION, 0)
    mlp = GatedMlp(6, 10)
    for weight in mlp.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    x = torch.randn(5, 1, 4, 6, generator=generator)
    with torch.inference_mode():
        runner = ScoreNeurons({Site(PREFIX, 0): GatedMlp(6, 99), site: mlp}, 3, 5)
        for step in range(5):
            runner.begin_step(step)
            assert torch.equal(runner(site, x[step]), mlp(x[step]))
        h = mlp.hidden(x)[:, 0]
        norm = mlp.down_proj.norm(dim=-1)
    for group, anchor, followers in ((0, 0, [1, 2]), (1, 3, [4])):
        expected = {
            'contribution': h[followers].abs().sum((0, 1)) * norm,
            'delta': (h[followers] - h[anchor]).abs().sum((0, 1)) * norm,
            ANCHOR: h[anchor].abs().sum(0) * norm,
        }
        for name, score in expected.items():
            torch.testing.assert_close(runner.scores[name][group, 0], score)
