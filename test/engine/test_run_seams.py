"""The engine's two seams for other methods: another sampler, and rows whose K/V are given."""

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.engine.eager import EagerEngine, check_finite
from rmuscle_ros.engine.plans import CachedPlan
from rmuscle_ros.engine.sampler import EulerSampler, SkipSampler
from rmuscle_ros.errors import ConfigError, PolicyError
from rmuscle_ros.models.base import RowReuse

NOISE = np.random.default_rng(5).normal(size=(7, 14)).astype(np.float32)


@pytest.fixture
def observed(engine, make_inputs):
    return engine.observe(make_inputs(0, 40))


@pytest.fixture
def dense(engine, observed):
    return engine.run(observed, None, NOISE)


@pytest.fixture
def earlier(engine, make_inputs):
    """A call of the same scene, pictures and state slightly different."""
    return engine.run(engine.observe(make_inputs(0, 1)), None, NOISE)


@pytest.fixture
def run_reusing(engine, observed):
    """run_reusing(rows, cache): computes these rows, takes the others from ``cache``."""

    def run(rows, cache):
        return engine.run(observed, None, NOISE, reuse=RowReuse(rows, cache))

    return run


def all_rows(observed):
    return torch.arange(observed.prefix.x.shape[1])


class Widths(DenseFfn):
    """Notes how many rows every FFN sees."""

    def __init__(self, modules):
        super().__init__(modules)
        self.rows = []

    def __call__(self, site, x):
        self.rows.append(x.shape[1])
        return super().__call__(site, x)


def test_another_number_of_steps_is_that_of_an_engine_built_with_it(
    engine, observed, dense, mini_model
):
    six = EagerEngine(mini_model, torch.device('cpu'), torch.float32, 6)
    ours = engine.run(observed, None, NOISE, sampler=EulerSampler(6)).normalised
    assert np.array_equal(ours, six.run(observed, None, NOISE).normalised)
    assert not np.array_equal(ours, dense.normalised)


def test_conditions_are_computed_once_per_times(engine):
    first = engine.conditions_at(EulerSampler(4))
    assert engine.conditions_at(SkipSampler(4, (0, 1, 2, 3))) is first
    assert engine.conditions_at(EulerSampler(4, first=1)) is not first
    assert engine.conditions_at(engine.sampler) is engine.conditions


def test_a_late_start_from_the_call_s_own_state_gives_its_actions(engine, observed, dense):
    states = []

    class Spy(EulerSampler):
        def __call__(self, noise, velocity, ffn):
            return super().__call__(noise, lambda x, n: states.append(x) or velocity(x, n), ffn)

    engine.run(observed, None, NOISE, sampler=Spy(10))
    late = engine.run(observed, None, states[4][0].numpy(), sampler=EulerSampler(10, first=4))
    np.testing.assert_allclose(late.normalised, dense.normalised, rtol=1e-5, atol=1e-5)


def test_computing_every_row_is_bitwise_dense(observed, dense, earlier, run_reusing):
    result = run_reusing(all_rows(observed), earlier.cache)
    assert np.array_equal(result.normalised, dense.normalised)


@pytest.mark.parametrize('computed', [0, 1, 9, 26])
def test_the_same_observation_gives_dense_whatever_is_reused(
    observed, dense, run_reusing, computed
):
    rows = torch.cat((observed.prefix.visual[:computed], observed.prefix.text))
    again = run_reusing(rows, dense.cache)
    np.testing.assert_allclose(again.normalised, dense.normalised, atol=2e-6)


def test_computed_rows_attend_to_the_reused_ones(observed, dense, earlier, run_reusing):
    text, visual = observed.prefix.text, observed.prefix.visual
    mixed = run_reusing(text, earlier.cache)
    for layer, (ours, old, new) in enumerate(
        zip(mixed.cache.kv, earlier.cache.kv, dense.cache.kv, strict=True)
    ):
        assert torch.equal(ours[..., visual, :], old[..., visual, :])
        # The first layer's K/V of a row depend on that row alone, the later ones on all rows.
        close = torch.allclose(ours[..., text, :], new[..., text, :], atol=1e-5)
        assert close == (layer == 0)


def test_of_reused_rows_nothing_is_computed(engine, observed, earlier):
    rows, seen = observed.prefix.text, []
    for layer in (*engine.model.prefix_layers, engine.model.last_prefix_layer):
        layer.input_norm.register_forward_hook(lambda m, a, y: seen.append(y.shape[1]))
    ffn = Widths(engine.model.ffn_modules())
    with torch.inference_mode():
        engine.model.prefill(observed.prefix, ffn, RowReuse(rows, earlier.cache))
    assert ffn.rows == [len(rows)] * 2
    assert seen == [len(rows)] * 3


def test_an_earlier_call_is_left_as_it_was(observed, earlier, run_reusing):
    before = [kv.clone() for kv in earlier.cache.kv]
    run_reusing(observed.prefix.text, earlier.cache)
    assert all(map(torch.equal, before, earlier.cache.kv))


def test_a_prefix_of_other_cameras_is_refused(engine, make_inputs, observed, run_reusing):
    other = engine.run(engine.observe(make_inputs(cameras=('cam_high',))), None, NOISE)
    with pytest.raises(ConfigError, match='found an earlier prefix of 24 rows, expected 42'):
        run_reusing(all_rows(observed), other.cache)


@pytest.mark.parametrize('seam', ['sampler', 'reuse'])
def test_the_caches_do_not_go_with_another_method(engine, make_inputs, observed, dense, seam):
    given = {'sampler': EulerSampler(4), 'reuse': RowReuse(observed.prefix.text, dense.cache)}
    plan = CachedPlan((engine.expand(make_inputs()),), 0.4)
    with pytest.raises(ConfigError, match='found a CachedPlan together with'):
        engine.run(observed, plan, NOISE, **{seam: given[seam]})


def test_actions_that_are_not_finite_are_refused():
    check_finite(NOISE, 'mini')
    with pytest.raises(PolicyError, match='mini: found actions that are not finite'):
        check_finite(np.array([0.0, np.inf], np.float32), 'mini')
