import itertools
import math

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.scores import effective_rho, levels_of, neuron_score, sixteenths
from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.types import ACTION, Site

SITE = Site(ACTION, 0)


@pytest.mark.parametrize('width', [16, 37, 88, 1536])
@pytest.mark.parametrize('count', range(1, 17))
def test_level_masks_hold_the_best_ceil_k_sixteenths(width, count):
    scores = torch.rand(width, generator=torch.Generator().manual_seed(width))
    chosen = levels_of(scores) < count
    assert int(chosen.sum()) == math.ceil(count * width / 16)
    if not chosen.all():
        assert scores[chosen].min() >= scores[~chosen].max()


def test_masks_nest_and_are_sorted():
    scores = torch.rand(1, 1, 53)
    masks = NeuronMasks.from_scores(scores, (SITE,), anchors=(0,), steps=5, score='delta')
    sets = [masks.neurons(0, SITE, k / 16).tolist() for k in range(1, 17)]
    assert all(s == sorted(s) for s in sets)
    assert all(set(a) < set(b) for a, b in itertools.pairwise(sets))
    assert sets[-1] == list(range(53))


def test_ties_go_to_the_lower_neuron():
    assert levels_of(torch.zeros(32)).tolist() == [k // 2 for k in range(32)]


@pytest.mark.parametrize('width', [1, 2, 37, 88])
def test_packing_is_lossless(width):
    levels = np.random.default_rng(0).integers(0, 16, (2, 3, width)).astype(np.uint8)
    masks = NeuronMasks(levels, tuple(Site(ACTION, i) for i in range(3)), (0, 5), 10, 'delta')
    packed = masks.pack()
    assert packed.nbytes == 2 * 3 * ((width + 1) // 2)
    assert np.array_equal(NeuronMasks.unpack(packed, width), levels)


@pytest.mark.parametrize(
    ('rho', 'level'), [(0.5, 8), (0.51, 9), (0.3, 5), (1.0, 16), (0.0625, 1), (0.0, 0)]
)
def test_rho_n_is_rounded_up_to_sixteenths(rho, level):
    assert sixteenths(rho) == level
    assert effective_rho(rho) == level / 16


def test_scores_weigh_activity_by_the_output_direction():
    h = torch.tensor([[1.0, -2.0], [3.0, 0.0]])
    anchor = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    norm = torch.tensor([1.0, 10.0])
    assert neuron_score(h, anchor, norm, 'contribution').tolist() == [4.0, 20.0]
    assert neuron_score(h, anchor, norm, 'delta').tolist() == [0.0, 20.0]
