"""What calibration measures: the error of copied rows at each share, the rest of a call dense."""

import numpy as np
import pytest
import torch

SHARES = (0.25, 0.5, 1.0)


@pytest.fixture
def copied(engine, call):
    return engine.copy_errors(call.observed.inputs, call.noise, call.state, SHARES)


def test_errors_are_those_of_cached_calls_against_the_dense_one(call, copied):
    assert tuple(copied.error) == SHARES
    for share, error in copied.error.items():
        difference = np.abs(call.cached(share).normalised - call.dense.normalised)
        assert error == pytest.approx(float(difference.mean()), rel=1e-5)
    assert copied.error[0.25] > copied.error[0.5] > 0 == copied.error[1.0]


def test_the_drift_is_that_of_the_first_site(call, copied):
    assert torch.equal(copied.row_drift, call.cached(0.25).context.row_drift)
    assert copied.row_drift.shape == (27,) and copied.row_drift.min() > 0


def test_a_call_s_own_state_does_no_harm(engine, call):
    own = engine.expand(call.observed.inputs)
    copied = engine.copy_errors(call.observed.inputs, call.noise, own, SHARES)
    assert max(copied.error.values()) < 1e-5
    assert copied.slopes() == [] and not copied.row_drift.any()


def test_every_ffn_of_all_of_its_calls_asks_before_it_begins(engine, call):
    asked = []
    engine.copy_errors(
        call.observed.inputs, call.noise, call.state, SHARES, lambda: asked.append(0)
    )
    one_vision, prefill, denoise = 1, 2, 10 * 3
    assert len(asked) == one_vision + (1 + len(SHARES)) * (prefill + denoise)
