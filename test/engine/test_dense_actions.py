"""The dense rerun of shadow mode is the dense call, layer by layer."""

import numpy as np
import pytest

from rmuscle_ros.errors import ConfigError


def test_equals_the_dense_call_bit_by_bit(engine, make_inputs):
    inputs, noise = make_inputs(), engine.draw_noise()
    expected = engine.run(engine.observe(inputs), None, noise).normalised
    assert np.array_equal(engine.dense_actions(inputs, noise), expected)


def test_asks_before_every_ffn_of_every_stack_and_step(engine, make_inputs):
    asked = []
    engine.dense_actions(make_inputs(), engine.draw_noise(), lambda: asked.append(0))
    stacks = [site.stack for site in engine.model.ffn_modules()]
    steps = engine.sampler.steps
    assert len(asked) == sum(steps if stack == 'action' else 1 for stack in stacks)


def test_noise_of_another_shape_is_refused(engine, make_inputs):
    with pytest.raises(ConfigError, match=r'noise: found \(3, 14\), expected \(7, 14\)'):
        engine.dense_actions(make_inputs(), np.zeros((3, 14), np.float32))
