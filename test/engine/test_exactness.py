"""The equalities of "Exactness": every cached path against its dense twin."""

import itertools

import numpy as np
import pytest
import torch

from rmuscle_ros.bench.plain import plain_denoise, plain_prefill
from rmuscle_ros.cache.action import MASK_SOURCES, UNSELECTED, ActionPlan
from rmuscle_ros.cache.context import ContextFfn
from rmuscle_ros.cache.record import RecordFfn
from rmuscle_ros.cache.states import regular_anchors
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.types import PREFIX, Site

EVERY_STEP = tuple(range(10))

sources = pytest.mark.parametrize('source', MASK_SOURCES)
rules = pytest.mark.parametrize('unselected', UNSELECTED)


def test_dense_equals_modules_without_any_runner(engine, call):
    conditions = engine.conditions
    with torch.inference_mode():
        cache = plain_prefill(engine.model, call.observed.prefix.x)
        noise = torch.from_numpy(call.noise)[None]
        actions = plain_denoise(engine.model, cache, conditions, noise, 10)
    assert np.array_equal(actions[0].numpy(), call.dense.normalised)


@pytest.mark.parametrize('references', [1, 3])
def test_rho_p_1_gathers_and_scatters_and_is_bitwise_dense(engine, call, references):
    states = [engine.expand(call.make_inputs(0, jitter)) for jitter in range(1, references + 1)]
    result = call.cached(rho_p=1.0, states=tuple(states))
    rows = call.observed.prefix.x.shape[1]
    sites = [site for site in engine.model.ffn_modules() if site.stack == PREFIX]
    assert result.context.sites == len(sites) == 2
    assert result.context.computed_rows == rows * len(sites)
    assert result.context.copied_rows == 0
    assert np.array_equal(result.normalised, call.dense.normalised)


@sources
@rules
def test_rho_n_1_with_single_steps_is_bitwise_dense(call, source, unselected):
    result = call.cached(1.0, call.action(EVERY_STEP, 1.0, unselected, source))
    assert result.action_ffn.anchor_calls == 30
    assert np.array_equal(result.normalised, call.dense.normalised)


@pytest.mark.parametrize('anchors', [(0, 5), (0, 2, 3, 6)])
@sources
@rules
def test_rho_n_1_with_groups_agrees_to_rounding(call, anchors, source, unselected):
    result = call.cached(1.0, call.action(anchors, 1.0, unselected, source))
    count = 3 * len(anchors)
    assert (result.action_ffn.anchor_calls, result.action_ffn.masked_calls) == (count, 30 - count)
    assert not np.array_equal(result.normalised, call.dense.normalised)
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=5e-6)


@pytest.mark.parametrize('group_len', [3, 4, 7, 10, 25])
def test_groups_that_do_not_divide_the_steps_work(call, group_len):
    result = call.cached(1.0, call.action(regular_anchors(group_len, 10), 1.0))
    assert result.action_ffn.anchor_calls == 3 * -(-10 // group_len)
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=2e-6)


@pytest.mark.parametrize('rho_p', [0.0, 0.1, 0.4, 0.9])
@pytest.mark.parametrize('others', [0, 2])
def test_own_observation_gives_dense_at_any_rho_p(engine, call, rho_p, others):
    states = [engine.expand(call.make_inputs(0, jitter)) for jitter in range(1, others + 1)]
    own = engine.expand(call.observed.inputs)
    result = call.cached(rho_p, states=(*states, own))
    assert result.context.copied_rows > 0
    assert result.context.drift == 0
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=1e-5)


def test_one_reference_given_twice_is_bitwise_one(call):
    once = call.cached(0.3)
    twice = call.cached(0.3, states=(call.state, call.state))
    assert np.array_equal(twice.normalised, once.normalised)
    assert not np.array_equal(once.normalised, call.dense.normalised)


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
                (record.state(),),
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
    action = call.action((0, 5), 0.5)
    loose = call.cached(0.4, action, drift_limits=np.full(3, 10.0, np.float32))
    assert not loose.context.tripped and loose.action_ffn is not None
    assert loose.reused
    tight = call.cached(0.4, action, drift_limits=np.full(3, 1e-5, np.float32))
    assert tight.context.tripped and tight.context.copied_rows == 0
    assert tight.context.drift == pytest.approx(loose.context.drift * 1e6, rel=1e-4)
    assert tight.action_ffn is None and not tight.reused
    assert np.array_equal(tight.normalised, call.dense.normalised)


@pytest.mark.parametrize('anchors', [(0, 4), (0, 2, 5)])
def test_masks_of_other_anchors_are_refused(call, anchors):
    other = ActionPlan(anchors, 0.5, masks=call.recorded((0, 5)).masks)
    with pytest.raises(ConfigError, match=r'recorded with anchors \[0, 5\] of 10 steps'):
        call.cached(1.0, other)


@pytest.mark.parametrize(('rho_n', 'what'), [(0.5, r'cache\.anchors'), (0.0, 'computed')])
def test_anchors_beyond_the_steps_are_refused(call, rho_n, what):
    action = ActionPlan((0, 10), rho_n, mask_source='anchor')
    with pytest.raises(ConfigError, match=rf'{what}: found .*\[0, 10\], expected rising'):
        call.cached(1.0, action)


def test_keys_have_unit_length_and_one_part_per_view(engine, make_inputs):
    key = engine.observe(make_inputs()).key
    assert key.shape == (3 * 20,)
    assert np.linalg.norm(key) == pytest.approx(1.0, abs=1e-6)


def test_noise_of_another_shape_is_refused(engine, call):
    with pytest.raises(ConfigError, match=r'found \(7, 13\), expected \(7, 14\)'):
        engine.run(call.observed, None, np.zeros((7, 13), np.float32))
