"""Denoise steps between anchors that are skipped or that follow a reference."""

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.action import UNSELECTED, ActionPlan
from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.engine.plans import CachedPlan
from rmuscle_ros.errors import ConfigError

ANCHORS = (0, 2, 3, 6)
STEPS = 10


def skipping(unselected, anchors=ANCHORS, velocity=None):
    return ActionPlan(anchors, 0.0, unselected, velocity=velocity)


def velocity_of(call, inputs=None):
    """float32 [10, 7, 14]: the reference's network outputs under the call's noise."""
    recorded = call.recorded(ANCHORS, inputs=inputs)
    return torch.from_numpy(recorded.velocity).float()


def by_hand(call, unselected, reference):
    """The loop over ten steps, the network evaluated at the anchors only."""
    engine = call.engine
    dense = DenseFfn(engine.model.ffn_modules())
    x, evaluated = torch.from_numpy(call.noise)[None], {}
    with torch.inference_mode():
        cache = engine.model.prefill(call.observed.prefix, dense)
        for step in range(STEPS):
            *before, anchor = [known for known in ANCHORS if known <= step]
            if step == anchor:
                evaluated[step] = engine.model.denoise(cache, x, engine.conditions, step, dense)
            v = evaluated[anchor]
            if unselected == 'extrapolate' and before:
                rate = (v - evaluated[before[-1]]) / (anchor - before[-1])
                v = v + (step - anchor) * rate
            elif unselected == 'reference':
                v = v + reference[step] - reference[anchor]
            x = x - v / STEPS
    return x[0].numpy()


@pytest.mark.parametrize('unselected', UNSELECTED)
def test_skipped_steps_are_those_of_a_loop_by_hand(call, unselected):
    velocity = velocity_of(call) if unselected == 'reference' else None
    result = call.cached(1.0, skipping(unselected, velocity=velocity))
    expected = by_hand(call, unselected, velocity)
    np.testing.assert_allclose(result.normalised, expected, rtol=1e-5, atol=1e-5)
    assert result.reused and result.action_ffn is None
    assert np.abs(expected - call.dense.normalised).max() > 1e-4


def test_the_network_is_evaluated_at_the_anchors_only(engine, call, monkeypatch):
    steps, denoise = [], engine.model.denoise

    def counted(cache, actions, conditions, step, ffn):
        steps.append(step)
        return denoise(cache, actions, conditions, step, ffn)

    monkeypatch.setattr(engine.model, 'denoise', counted)
    call.cached(1.0, skipping('extrapolate'))
    assert steps == [0, 1, 2, 3], 'numbers of evaluations, not of steps'


@pytest.mark.parametrize('unselected', ['hold', 'extrapolate'])
def test_nothing_skipped_is_bitwise_dense(call, unselected):
    result = call.cached(1.0, skipping(unselected, tuple(range(STEPS))))
    assert np.array_equal(result.normalised, call.dense.normalised)


def test_following_the_call_s_own_velocities_reproduces_it(call):
    velocity = velocity_of(call, call.observed.inputs)
    result = call.cached(1.0, skipping('reference', velocity=velocity))
    # Velocities are kept in half precision: 11 bits of mantissa. Every skipped step adds the
    # difference of two of them, each off by at most 2^-12 of its size, to a tenth. The network
    # passes on what the state is off by, at most doubled here.
    skipped = STEPS - len(ANCHORS)
    bound = 2 * skipped * 2 * 2.0**-12 * float(velocity.abs().max()) / STEPS
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=bound)
    held = call.cached(1.0, skipping('hold'))
    assert np.abs(held.normalised - call.dense.normalised).max() > 20 * bound


@pytest.mark.parametrize('rho_n', [1 / 16, 0.5])
@pytest.mark.parametrize('source', ['reference', 'anchor', 'both'])
def test_neurons_that_follow_the_call_s_own_change_reproduce_it(call, rho_n, source):
    call.reference = call.observed.inputs
    result = call.cached(1.0, call.action(ANCHORS, rho_n, 'reference', source))
    np.testing.assert_allclose(result.normalised, call.dense.normalised, atol=5e-6)
    held = call.cached(1.0, call.action(ANCHORS, rho_n, 'hold', source))
    assert np.abs(held.normalised - call.dense.normalised).max() > 1e-4


@pytest.mark.parametrize('rho_n', [0.0, 0.5])
def test_without_states_only_the_denoise_steps_are_reused(call, rho_n):
    action = ActionPlan(ANCHORS, rho_n, 'extrapolate', 'anchor')
    alone = call.engine.run(call.observed, CachedPlan((), 1.0, action), call.noise)
    beside_full_prefill = call.cached(1.0, action)
    assert np.array_equal(alone.normalised, beside_full_prefill.normalised)
    assert (alone.context, alone.reused, alone.action) == (None, False, action)


@pytest.mark.parametrize('keep_action', [False, True])
@pytest.mark.parametrize('stopped_by', ['fence', 'guard'])
@pytest.mark.parametrize('source', ['anchor', 'reference'])
def test_a_stopped_call_keeps_only_what_needs_no_reference(call, keep_action, stopped_by, source):
    action = call.action(ANCHORS, 0.5, 'extrapolate', source)
    stop = {
        'fence': {'drift_limits': np.full(3, 1e-9, np.float32)},
        'guard': {'guard': Guard(1.0, 1e-12)},
    }
    result = call.cached(0.4, action, keep_action=keep_action, **stop[stopped_by])
    assert not result.reused and result.context.copied_rows == 0
    if keep_action and source == 'anchor':
        assert result.action is action
        expected = call.engine.run(call.observed, CachedPlan((), 1.0, action), call.noise)
    else:
        assert result.action is None
        expected = call.dense
    assert np.array_equal(result.normalised, expected.normalised)


def test_velocities_are_not_looked_at_where_no_reference_is_followed(call):
    velocity = velocity_of(call)
    given = call.cached(1.0, skipping('hold', velocity=velocity))
    without = call.cached(1.0, skipping('hold'))
    assert np.array_equal(given.normalised, without.normalised)


def test_following_a_reference_without_velocities_is_refused(call):
    with pytest.raises(ConfigError, match='found none with between'):
        call.cached(1.0, skipping('reference'))
