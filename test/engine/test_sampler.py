import torch

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.engine.sampler import EulerSampler


def test_times_run_from_noise_to_actions():
    assert EulerSampler(4).times().tolist() == [1.0, 0.75, 0.5, 0.25]


def test_a_constant_velocity_is_integrated_exactly():
    noise = torch.randn(1, 3, 2)
    actions = EulerSampler(7)(noise, lambda x, step: torch.full_like(x, 2.0), DenseFfn({}))
    torch.testing.assert_close(actions, noise - 2.0)


def test_half_precision_velocities_are_summed_in_float32():
    def velocity(x, step):
        return torch.full(x.shape, 2.0**-9, dtype=torch.bfloat16)

    actions = EulerSampler(10)(torch.ones(1, 3, 2), velocity, DenseFfn({}))
    torch.testing.assert_close(actions, torch.full((1, 3, 2), 1 - 2.0**-9))
