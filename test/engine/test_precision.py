"""bfloat16, the default on a GPU: every kind of call runs, near float32, in exact joint units."""

import numpy as np
import pytest
import torch

from rmuscle_ros.engine.eager import CachedPlan, EagerEngine, RecordPlan
from rmuscle_ros.models.tiny_init import HOME_ARM


@pytest.fixture(params=['dense', 'recorded', 'cached'])
def call(request, make_inputs):
    """call(engine): one call of this kind with fixed noise."""
    noise = np.random.default_rng(0).normal(size=(7, 14)).astype(np.float32)

    def run(engine):
        observed = engine.observe(make_inputs(0, 5))
        recorded = engine.run(observed, RecordPlan(5, 'contribution'), noise)
        state = engine.expand(make_inputs(0, 5))
        plans = {
            'dense': None,
            'recorded': RecordPlan(5, 'contribution'),
            'cached': CachedPlan(
                state, recorded.masks, 0.4, 0.5, drift_limits=np.ones(3, np.float32)
            ),
        }
        return engine.run(observed, plans[request.param], noise)

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
