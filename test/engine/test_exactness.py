"""The equalities of "Exactness": every cached path against its dense twin."""

import itertools

import numpy as np
import pytest
import torch

from rmuscle_ros.bench.plain import plain_denoise, plain_prefill
from rmuscle_ros.cache.context import ContextFfn
from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.cache.record import RecordFfn
from rmuscle_ros.engine.eager import CachedPlan, RecordPlan
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.types import ACTION, PREFIX, Site


@pytest.fixture
def call(engine, make_inputs):
    """A reference call and a later call of nearly the same scene."""

    class Call:
        reference = make_inputs(0, 1)
        observed = engine.observe(make_inputs(0, 40))
        state = engine.expand(reference)
        noise = np.random.default_rng(5).normal(size=(7, 14)).astype(np.float32)
        dense = engine.run(observed, None, noise)

        @staticmethod
        def masks(group_len):
            observed = engine.observe(make_inputs(0, 1))
            return engine.run(observed, RecordPlan(group_len, 'contribution')).masks

        def cached(self, rho_p, masks=None, rho_n=1.0, **plan):
            plan = CachedPlan(self.state, masks, rho_p, rho_n, **plan)
            return engine.run(self.observed, plan, self.noise)

    return Call()


def test_dense_equals_modules_without_any_runner(engine, call):
    conditions = engine.conditions
    with torch.inference_mode():
        cache = plain_prefill(engine.model, call.observed.prefix.x)
        noise = torch.from_numpy(call.noise)[None]
        actions = plain_denoise(engine.model, cache, conditions, noise, 10)
    assert np.array_equal(actions[0].numpy(), call.dense.normalised)


def test_rho_p_1_gathers_and_scatters_and_is_bitwise_dense(engine, call):
    result = call.cached(rho_p=1.0)
    rows = call.observed.prefix.x.shape[1]
    sites = [site for site in engine.model.ffn_modules() if site.stack == PREFIX]
    assert result.context.sites == len(sites) == 2
    assert result.context.computed_rows == rows * len(sites)
    assert result.context.copied_rows == 0
    assert np.array_equal(result.normalised, call.dense.normalised)


def test_rho_n_1_with_single_steps_is_bitwise_dense(call):
    result = call.cached(rho_p=1.0, masks=call.masks(group_len=1), rho_n=1.0)
    assert result.action_ffn.anchor_calls == 30
    assert np.array_equal(result.normalised, call.dense.normalised)


def test_rho_n_1_with_groups_agrees_to_rounding(call):
    result = call.cached(rho_p=1.0, masks=call.masks(group_len=5), rho_n=1.0)
    assert (result.action_ffn.anchor_calls, result.action_ffn.masked_calls) == (6, 24)
    assert not np.array_equal(result.normalised, call.dense.normalised)
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=2e-6)


@pytest.mark.parametrize('group_len', [3, 4, 7, 10, 25])
def test_groups_that_do_not_divide_the_steps_work(call, group_len):
    result = call.cached(rho_p=1.0, masks=call.masks(group_len), rho_n=1.0)
    assert result.action_ffn.anchor_calls == 3 * -(-10 // group_len)
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=2e-6)


@pytest.mark.parametrize('rho_p', [0.0, 0.1, 0.4, 0.9])
def test_own_observation_gives_dense_at_any_rho_p(engine, call, rho_p):
    state = engine.expand(call.observed.inputs)
    result = engine.run(call.observed, CachedPlan(state, None, rho_p, 1.0), call.noise)
    assert result.context.copied_rows > 0
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=1e-5)


def test_error_at_one_site_falls_monotonically_in_rho_p(engine, call):
    prefix = call.observed.prefix
    modules = engine.model.ffn_modules()
    record = RecordFfn(modules, prefix.visual)
    with torch.inference_mode():
        engine.model.prefill(prefix, record)
        site = Site(PREFIX, 0)
        x = torch.randn(prefix.x.shape, generator=torch.Generator().manual_seed(1))
        dense = modules[site](x)
        errors, selected = [], []
        for rho_p in np.linspace(0, 1, 11):
            ffn = ContextFfn(
                modules,
                record.state,
                prefix.visual,
                prefix.text,
                float(rho_p),
                torch.ones(3),
                fence=False,
            )
            errors.append(float((ffn(site, x) - dense).norm()))
            selected.append(set(ffn.trace.selected[site].tolist()))
    assert errors[0] > 0 and errors[-1] == 0
    assert all(later <= earlier for earlier, later in itertools.pairwise(errors))
    assert all(small <= large for small, large in itertools.pairwise(selected))


def test_text_rows_are_always_recomputed(call):
    result = call.cached(rho_p=0.0)
    text = call.observed.prefix.text.tolist()
    assert all(rows.tolist() == text for rows in result.context.selected.values())


def test_drift_fence_trips_before_anything_is_copied(call):
    loose = call.cached(
        rho_p=0.4, masks=call.masks(5), rho_n=0.5, drift_limits=np.full(3, 10.0, np.float32)
    )
    assert not loose.context.tripped and loose.action_ffn is not None
    tight = call.cached(
        rho_p=0.4, masks=call.masks(5), rho_n=0.5, drift_limits=np.full(3, 1e-9, np.float32)
    )
    assert tight.context.tripped and tight.context.copied_rows == 0
    assert tight.context.drift == pytest.approx(loose.context.drift * 1e10, rel=1e-4)
    assert tight.action_ffn is None
    assert np.array_equal(tight.normalised, call.dense.normalised)


def test_recording_is_bitwise_dense(engine, call):
    result = engine.run(call.observed, RecordPlan(5, 'contribution'), call.noise)
    assert np.array_equal(result.normalised, call.dense.normalised)
    assert result.masks.levels.shape == (2, 3, 88)


def test_recorded_scores_follow_the_formula(engine, call):
    modules = engine.model.ffn_modules()
    hidden: dict[tuple[int, Site], torch.Tensor] = {}

    class Spy(DenseFfn):
        step = 0

        def begin_step(self, step):
            Spy.step = step

        def __call__(self, site, x):
            hidden[Spy.step, site] = modules[site].hidden(x)[0]
            return super().__call__(site, x)

    with torch.inference_mode():
        cache = engine.model.prefill(call.observed.prefix, DenseFfn(modules))
        spy = Spy(modules)
        x = torch.from_numpy(call.noise)[None]
        engine.sampler(
            x, lambda a, s: engine.model.denoise(cache, a, engine.conditions, s, spy), spy
        )
    masks = engine.run(call.observed, RecordPlan(5, 'delta'), call.noise).masks
    site = Site(ACTION, 1)
    followers = [hidden[step, site] - hidden[5, site] for step in (6, 7, 8, 9)]
    score = sum(change.abs().sum(0) for change in followers)
    score = score * modules[site].down_proj.norm(dim=1)
    expected = set(score.topk(44).indices.tolist())
    assert set(masks.neurons(1, site, 0.5).tolist()) == expected


def test_masks_of_fewer_steps_are_refused(engine, call):
    masks = call.masks(5)
    engine.sampler = type(engine.sampler)(12)
    with torch.inference_mode():
        engine.conditions = engine.model.step_conditions(engine.sampler.times())
    with pytest.raises(ConfigError, match='recorded with 10 steps'):
        call.cached(rho_p=1.0, masks=masks, rho_n=0.5)


def test_expand_visits_the_checkpoint_before_every_prefill_ffn(engine, make_inputs):
    visits = []
    engine.expand(make_inputs(), lambda: visits.append(1))
    assert len(visits) == 1 + 2


def test_keys_have_unit_length_and_one_part_per_view(engine, make_inputs):
    key = engine.observe(make_inputs()).key
    assert key.shape == (3 * 20,)
    assert np.linalg.norm(key) == pytest.approx(1.0, abs=1e-6)


def test_noise_of_another_shape_is_refused(engine, call):
    with pytest.raises(ConfigError, match=r'found \(7, 13\), expected \(7, 14\)'):
        engine.run(call.observed, None, np.zeros((7, 13), np.float32))
