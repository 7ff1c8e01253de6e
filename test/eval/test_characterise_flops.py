"""The arithmetic of a call, against counts made another way."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rmuscle_ros.eval.characterise.flops import count, intensity, weights
from rmuscle_ros.nn.mlp import GatedMlp, PlainMlp

ROWS = 13


@pytest.mark.parametrize('kind', [GatedMlp, PlainMlp])
def test_an_ffn_costs_two_flop_per_row_and_weight(kind):
    mlp = kind(6, 20)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        mlp(torch.ones(1, ROWS, 6))
    assert counter.get_total_flops() == 2 * ROWS * weights(mlp)


def test_intensity_tends_to_the_number_of_rows():
    """Weights in 16 bits: 2 FLOP per row for 2 bytes; inputs and outputs come on top."""
    mlp = GatedMlp(8, 4000)
    assert intensity(mlp, 1) == pytest.approx(1, rel=0.001)
    moved = 2 * (3 * 8 * 4000 + 2 * 50 * 8)
    assert intensity(mlp, 50) == pytest.approx(2 * 50 * 3 * 8 * 4000 / moved)


@pytest.fixture
def counted(engine, make_inputs):
    return count(engine, make_inputs(0), rho_p=0.4, rho_n=0.5, group_len=5)


def test_rows_and_stages_of_a_call(counted, engine, make_inputs):
    inputs = make_inputs(0)
    config = engine.model.config
    visual = len(inputs.cameras) * (config.image_size // config.patch_size) ** 2
    text = len(inputs.instruction.encode()) + 1
    assert counted['rows'] == {'visual': visual, 'prefix': visual + text, 'action': 7}
    gated = 2 * 3 * config.width * config.hidden
    stages = counted['stages']
    # the last prefix layer has no FFN
    assert stages['prefill']['ffn_flop'] == (config.layers - 1) * (visual + text) * gated
    assert stages['denoise']['ffn_flop'] == config.layers * 10 * 7 * gated
    assert stages['vision']['saved_flop'] == 0
    for stage in stages.values():
        assert stage['saved_flop'] < stage['ffn_flop'] < stage['flop']


def test_what_the_caches_save(counted):
    rows, stages = counted['rows'], counted['stages']
    copied = rows['visual'] - 11  # ceil(0.4 * 27) are computed
    assert rows['visual'] == 27
    prefill = stages['prefill']
    assert prefill['saved_flop'] == round(prefill['ffn_flop'] * copied / rows['prefix'])
    # 8 of 10 steps compute half of the neurons
    assert stages['denoise']['saved_flop'] == round(stages['denoise']['ffn_flop'] * 0.4)
    assert counted['steps_of_same_ffn_work'] == 6
    total = sum(stage['flop'] for stage in stages.values())
    saved = sum(stage['saved_flop'] for stage in stages.values())
    assert counted['ideal_speedup']['both'] == pytest.approx(total / (total - saved), rel=1e-6)


def test_caches_that_compute_everything_save_nothing(engine, make_inputs):
    ideal = count(engine, make_inputs(0), rho_p=1, rho_n=1, group_len=5)['ideal_speedup']
    assert ideal['context_cache'] == ideal['action_cache'] == ideal['both'] == 1
    assert ideal['fewer_steps'] == 1
    assert ideal['cached_ffns_free'] > 1
