import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.models.tiny import TinyConfig, time_embedding
from rmuscle_ros.models.tiny_init import HOME_ARM, untrained
from rmuscle_ros.types import ACTION, PREFIX, VISION, ModelInputs


@pytest.fixture(scope='module')
def tiny():
    return untrained(0)


def inputs(config, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (3, config.image_size, config.image_size, 3)).astype(np.uint8)
    state = np.array(HOME_ARM * 2, np.float32)
    return ModelInputs(images, config.cameras, state, 'hand over the red cube')


def call(model, given, steps=10, seed=0):
    """A dense call; returns joint targets [H, J] and the FFN sites in order."""
    sites = []
    dense = DenseFfn(model.ffn_modules())

    def ffn(site, x):
        sites.append(site)
        return dense(site, x)

    with torch.inference_mode():
        prefix = model.embed(model.vision(torch.from_numpy(given.images), ffn), given)
        cache = model.prefill(prefix, ffn)
        conditions = model.step_conditions(1 - torch.arange(steps) / steps)
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(1, model.horizon, model.action_width, generator=generator)
        for step in range(steps):
            x = x - model.denoise(cache, x, conditions, step, ffn) / steps
        return model.unnormalise(x, given).numpy(), sites


def test_it_has_at_most_ten_million_parameters(tiny):
    assert sum(p.numel() for p in tiny.parameters()) <= 10e6


def test_ffns_are_three_quarters_of_the_flops(tiny):
    total, ffn_only = FlopCounterMode(display=False), FlopCounterMode(display=False)
    with total:
        call(tiny, inputs(tiny.config))
    sizes = {'prefix': 3 * 64 + 22 + 1, 'action': 50 * 10}
    with ffn_only:
        for site, mlp in tiny.ffn_modules().items():
            if site.stack != VISION:
                mlp(torch.zeros(sizes[site.stack], mlp.width))
    assert ffn_only.get_total_flops() / total.get_total_flops() >= 0.75


def test_every_site_is_visited_and_the_dead_ffn_does_not_exist(tiny):
    _, sites = call(tiny, inputs(tiny.config), steps=2)
    layers = tiny.config.layers
    expected = [(VISION, i) for i in range(2)] + [(PREFIX, i) for i in range(layers - 1)]
    assert sites == expected + [(ACTION, i) for i in range(layers)] * 2
    assert list(tiny.ffn_modules()) == list(dict.fromkeys(sites))


def test_untrained_weights_keep_the_arm_near_home(tiny):
    targets, _ = call(tiny, inputs(tiny.config))
    home = np.array(HOME_ARM * 2)
    assert targets.shape == (50, 14)
    assert np.abs(targets - home).max() < 0.15
    assert np.abs(targets - home).mean() < 0.02


def test_the_observation_changes_the_actions(tiny):
    first, _ = call(tiny, inputs(tiny.config, 0))
    second, _ = call(tiny, inputs(tiny.config, 1))
    assert np.abs(first - second).max() > 1e-7


def test_same_seed_same_weights_other_seed_other_weights():
    first, again, other = load_model('', 0), load_model('', 0), load_model('', 1)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert not first.trained


def test_absent_cameras_have_no_rows(tiny):
    given = inputs(tiny.config)
    few = ModelInputs(given.images[:2], given.cameras[:2], given.state, given.instruction)
    dense = DenseFfn(tiny.ffn_modules())
    with torch.inference_mode():
        features = tiny.vision(torch.from_numpy(few.images), dense)
        prefix = tiny.embed(features, few)
    assert prefix.visual.tolist() == list(range(128))
    assert prefix.text.tolist() == list(range(128, 128 + 22 + 1))


def test_relative_joints_start_from_the_observed_position():
    model = untrained(0, TinyConfig(image_size=36, layers=2))
    model.action_relative[0] = 1
    given = inputs(model.config)
    given.state[0] = 0.5
    absolute = torch.zeros(1, model.horizon, 14)
    targets = model.unnormalise(absolute, given)
    assert targets[0, 0] == pytest.approx(0.5 + HOME_ARM[0])
    assert targets[0, 1] == pytest.approx(HOME_ARM[1])


def test_time_embedding_separates_all_steps():
    embedding = time_embedding(torch.linspace(1, 0.1, 10), 32)
    distance = torch.cdist(embedding, embedding) + torch.eye(10) * 9
    assert distance.min() > 0.1
