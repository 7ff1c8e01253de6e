"""What a densely executed call leaves behind: masks, velocities, expanded states."""

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.engine.plans import RecordPlan
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.types import ACTION, PREFIX, Site


class Spy(DenseFfn):
    """Keeps the hidden activations of every action site in every step."""

    def __init__(self, modules):
        super().__init__(modules)
        self.modules, self.hidden, self.step = modules, {}, 0

    def begin_step(self, step):
        self.step = step

    def __call__(self, site, x):
        self.hidden[self.step, site] = self.modules[site].hidden(x)[0]
        return super().__call__(site, x)


@pytest.fixture
def spied(engine, call):
    """(hidden activations by step and site, velocity of every step) of the dense call."""
    modules, velocity = engine.model.ffn_modules(), []
    with torch.inference_mode():
        cache = engine.model.prefill(call.observed.prefix, DenseFfn(modules))
        spy = Spy(modules)

        def evaluate(actions, step):
            velocity.append(engine.model.denoise(cache, actions, engine.conditions, step, spy))
            return velocity[-1]

        engine.sampler(torch.from_numpy(call.noise)[None], evaluate, spy)
    return spy.hidden, torch.cat(velocity).numpy()


def test_recording_is_bitwise_dense(engine, call):
    result = engine.run(call.observed, RecordPlan((0, 5), 'contribution'), call.noise)
    assert np.array_equal(result.normalised, call.dense.normalised)
    assert result.recorded.masks.levels.shape == (2, 3, 88)
    assert call.dense.recorded is None


def test_recorded_scores_follow_the_formula(engine, call, spied):
    hidden, _ = spied
    masks = call.recorded((0, 5, 6), 'delta', call.observed.inputs).masks
    site = Site(ACTION, 1)
    followers = [hidden[step, site] - hidden[6, site] for step in (7, 8, 9)]
    score = sum(change.abs().sum(0) for change in followers)
    score = score * engine.model.ffn_modules()[site].down_proj.norm(dim=1)
    expected = set(score.topk(44).indices.tolist())
    assert set(masks.neurons(2, site, 0.5).tolist()) == expected


def test_velocities_are_the_network_s_outputs_in_half_precision(call, spied):
    _, velocity = spied
    recorded = call.recorded((0, 5), inputs=call.observed.inputs).velocity
    assert recorded.dtype == np.float16 and recorded.shape == (10, 7, 14)
    assert np.array_equal(recorded, velocity.astype(np.float16))
    # 11 bits of mantissa: each of the ten summands is off by at most 2^-12 of its size.
    bound = 2.0**-11 * np.abs(velocity).max()
    integrated = call.noise - recorded.astype(np.float32).sum(0) / 10
    np.testing.assert_allclose(integrated, call.dense.normalised, atol=bound)


@pytest.mark.parametrize('anchors', [(1, 5), (0, 10), ()])
def test_recording_for_impossible_anchors_is_refused(engine, call, anchors):
    with pytest.raises(ConfigError, match=r'cache\.anchors: found'):
        engine.run(call.observed, RecordPlan(anchors, 'delta'), call.noise)


def test_expanded_denoise_steps_are_those_of_the_dense_call(engine, call, spied):
    hidden, _ = spied
    state = engine.expand(call.observed.inputs, noise=call.noise)
    modules = engine.model.ffn_modules()
    assert list(state.steps.h) == [site for site in modules if site.stack == ACTION]
    for (step, site), h in hidden.items():
        assert torch.equal(state.steps.h[site][step], h)
        # The hidden rows of all steps were stacked; a product of another shape rounds otherwise.
        torch.testing.assert_close(
            state.steps.y[site][step], modules[site].project(h), atol=1e-6, rtol=1e-5
        )


def test_expansion_includes_the_denoise_steps_only_when_noise_is_given(engine, call):
    plain = engine.expand(call.reference)
    full = engine.expand(call.reference, noise=call.noise)
    assert plain.steps is None
    assert full.bytes > plain.bytes
    assert all(torch.equal(full.x[site], x) for site, x in plain.x.items())
    assert all(torch.equal(full.y[site], y) for site, y in plain.y.items())
    assert [site.stack for site in plain.x] == [PREFIX] * 2


def test_expand_visits_the_checkpoint_before_every_ffn(engine, call):
    visits = []
    engine.expand(call.reference, lambda: visits.append(1))
    assert len(visits) == 1 + 2
    visits.clear()
    engine.expand(call.reference, lambda: visits.append(1), call.noise)
    assert len(visits) == 1 + 2 + 10 * 3


def test_the_first_site_s_input_is_that_of_the_expansion(engine, call):
    visits = []
    rows = engine.first_site_input(call.reference, lambda: visits.append(1))
    assert torch.equal(rows, call.state.x[Site(PREFIX, 0)])
    assert len(visits) == 1 + 1, 'the second prefix layer is not computed'
