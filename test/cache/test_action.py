import numpy as np
import pytest
import torch

from rmuscle_ros.cache.action import ActionFfn
from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.nn.mlp import GatedMlp, PlainMlp
from rmuscle_ros.types import ACTION, Site

SITE = Site(ACTION, 0)
WIDTH, HIDDEN, ROWS = 6, 32, 5


def seeded(kind):
    mlp = kind(WIDTH, HIDDEN).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in mlp.parameters():
        parameter.normal_(0, 0.3, generator=generator)
    return mlp


@pytest.mark.parametrize('kind', [GatedMlp, PlainMlp])
def test_each_group_uses_its_own_mask_and_its_own_anchor(kind):
    mlp = seeded(kind)
    # group 0 ranks the neurons upwards, group 1 downwards
    rising = np.arange(HIDDEN) // 2
    levels = np.stack((rising, rising[::-1]))[:, None].astype(np.uint8)
    ffn = ActionFfn({SITE: mlp}, NeuronMasks(levels, (SITE,), group_len=3, steps=6), rho_n=0.25)
    x = torch.randn(6, 1, ROWS, WIDTH)
    outputs = []
    for step in range(6):
        ffn.begin_step(step)
        outputs.append(ffn(SITE, x[step]))
    masks = (slice(0, 8), slice(24, 32))
    for step in range(6):
        anchor, mask = step // 3 * 3, masks[step // 3]
        expected = mlp(x[anchor])
        if step != anchor:
            change = (mlp.hidden(x[step]) - mlp.hidden(x[anchor]))[..., mask]
            expected = expected + change @ mlp.down_proj[mask]
        torch.testing.assert_close(outputs[step], expected, atol=1e-6, rtol=1e-5)
    assert (ffn.anchor_calls, ffn.masked_calls) == (2, 4)
