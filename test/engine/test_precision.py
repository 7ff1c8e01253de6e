"""bfloat16, the default on a GPU: every kind of call runs, near float32, in exact joint units."""

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.plans import CachedPlan, RecordPlan
from rmuscle_ros.models.tiny_init import HOME_ARM

ANCHORS = (0, 2, 5)
NOISE = np.random.default_rng(0).normal(size=(7, 14)).astype(np.float32)


def action_plans(recorded, state):
    velocity = torch.from_numpy(recorded.velocity).float()
    return {
        'masked': ActionPlan(ANCHORS, 0.5, 'hold', 'reference', masks=recorded.masks),
        'own masks': ActionPlan(ANCHORS, 0.5, 'extrapolate', 'anchor', 'delta'),
        'following': ActionPlan(
            ANCHORS, 0.5, 'reference', 'both', masks=recorded.masks, steps_ref=state.steps
        ),
        'skipping': ActionPlan(ANCHORS, 0.0, 'extrapolate'),
        'skipping and following': ActionPlan(ANCHORS, 0.0, 'reference', velocity=velocity),
    }


@pytest.fixture(
    params=[
        'dense',
        'recorded',
        'masked',
        'own masks',
        'following',
        'skipping',
        'skipping and following',
    ]
)
def call(request, make_inputs):
    """call(engine): one call of this kind with fixed noise."""

    def run(engine):
        observed = engine.observe(make_inputs(0, 5))
        record = RecordPlan(ANCHORS, 'contribution')
        if request.param in ('dense', 'recorded'):
            return engine.run(observed, record if request.param == 'recorded' else None, NOISE)
        recorded = engine.run(observed, record, NOISE).recorded
        state = engine.expand(make_inputs(0, 5), noise=NOISE)
        plan = CachedPlan(
            (state, engine.expand(make_inputs(0, 6))),
            0.4,
            action_plans(recorded, state)[request.param],
            drift_limits=np.ones(3, np.float32),
            guard=Guard(1.0, 1.0),
        )
        result = engine.run(observed, plan, NOISE)
        assert result.reused
        return result

    return run


def test_a_bfloat16_call_is_near_float32(mini_model, call):
    exact = call(EagerEngine(mini_model, torch.device('cpu'), torch.float32, 10))
    rough = call(EagerEngine(mini_model, torch.device('cpu'), torch.bfloat16, 10))
    assert rough.actions.dtype == rough.normalised.dtype == np.float32
    difference = np.abs(rough.normalised - exact.normalised).max()
    assert 0 < difference < 0.05 * np.abs(exact.normalised).max()


def test_joint_targets_are_not_rounded_to_bfloat16(mini_model, make_inputs):
    engine = EagerEngine(mini_model, torch.device('cpu'), torch.bfloat16, 10)
    assert {parameter.dtype for parameter in engine.model.parameters()} == {torch.bfloat16}
    home = engine.model.unnormalise(torch.zeros(1, 7, 14), make_inputs())
    np.testing.assert_array_equal(home[0].numpy(), np.array(HOME_ARM * 2, np.float32))
