"""The samplers alone, on velocities known in closed form."""

import pytest
import torch

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.engine.sampler import EulerSampler, SkipSampler
from rmuscle_ros.errors import ConfigError

X = torch.linspace(-1, 1, 6).view(1, 3, 2)


class Steps(DenseFfn):
    """Notes which steps begin."""

    def __init__(self):
        super().__init__({})
        self.begun = []

    def begin_step(self, step):
        self.begun.append(step)


def curved(x, time):
    """A velocity that depends on state and time."""
    return x * time + 3 * time**2


def integrate(sampler, velocity=curved, start=X):
    times = sampler.times()
    return sampler(start, lambda x, n: velocity(x, times[n]), DenseFfn({}))


def test_times_run_from_noise_to_actions():
    assert EulerSampler(4).times() == (1.0, 0.75, 0.5, 0.25)


def test_a_constant_velocity_is_integrated_exactly():
    noise = torch.randn(1, 3, 2)
    actions = EulerSampler(7)(noise, lambda x, step: torch.full_like(x, 2.0), DenseFfn({}))
    torch.testing.assert_close(actions, noise - 2.0)


def test_half_precision_velocities_are_summed_in_float32():
    def velocity(x, step):
        return torch.full(x.shape, 2.0**-9, dtype=torch.bfloat16)

    actions = EulerSampler(10)(torch.ones(1, 3, 2), velocity, DenseFfn({}))
    torch.testing.assert_close(actions, torch.full((1, 3, 2), 1 - 2.0**-9))


def test_a_late_start_from_the_state_of_that_step_changes_nothing():
    x = X
    for step in range(3):
        x = x - curved(x, 1 - step / 8) / 8
    late = EulerSampler(8, first=3)
    assert late.times() == EulerSampler(8).times()[3:]
    assert torch.equal(integrate(late, start=x), integrate(EulerSampler(8)))


@pytest.mark.parametrize('first', [-1, 4, 5])
def test_a_start_outside_the_steps_is_refused(first):
    with pytest.raises(ConfigError, match=f'found step {first} of 4, expected 0 to 3'):
        EulerSampler(4, first)


@pytest.mark.parametrize('between', ['hold', 'extrapolate'])
def test_nothing_skipped_is_bitwise_euler(between):
    skip = SkipSampler(7, tuple(range(7)), between)
    assert torch.equal(integrate(skip), integrate(EulerSampler(7)))


def test_held_outputs_are_fewer_longer_steps():
    held = integrate(SkipSampler(6, (0, 2, 4), 'hold'))
    torch.testing.assert_close(held, integrate(EulerSampler(3)))


def test_extrapolation_is_exact_for_a_velocity_linear_in_time():
    def linear(x, time):
        return torch.full_like(x, 2 - 5 * time)

    exact = integrate(EulerSampler(9), linear)
    torch.testing.assert_close(integrate(SkipSampler(9, (0, 1, 5), 'extrapolate'), linear), exact)
    held = integrate(SkipSampler(9, (0, 1, 5), 'hold'), linear)
    assert (held - exact).abs().max() > 0.5


def test_only_the_computed_steps_are_evaluated():
    sampler, ffn, times = SkipSampler(5, (0, 1, 3), 'extrapolate'), Steps(), []
    sampler(X, lambda x, n: times.append(sampler.times()[n]) or x, ffn)
    assert times == pytest.approx([1.0, 0.8, 0.4])
    assert ffn.begun == [0, 1, 2]


@pytest.mark.parametrize('computed', [(), (1, 2), (0, 2, 2), (0, 3, 1), (0, 5), (-1, 0)])
def test_impossible_choices_of_steps_are_refused(computed):
    with pytest.raises(ConfigError, match='expected rising numbers below 5 that begin with 0'):
        SkipSampler(5, computed)


def test_followed_changes_of_a_reference_under_the_same_velocity_are_exact():
    reference, x = [], X
    for step in range(6):
        reference.append(curved(x, 1 - step / 6))
        x = x - reference[-1] / 6
    skip = SkipSampler(6, (0, 4), 'reference', torch.cat(reference))
    torch.testing.assert_close(integrate(skip), x)


def test_reference_velocities_follow_the_call_to_its_device():
    skip = SkipSampler(5, (0, 2), 'reference', torch.zeros(5, 3, 2))
    assert integrate(skip, start=X.to('meta')).device.type == 'meta'


@pytest.mark.parametrize('between', ['hold', 'reference'])
def test_a_reference_is_given_where_it_is_followed_and_only_there(between):
    velocities = None if between == 'reference' else torch.zeros(5, 3, 2)
    with pytest.raises(ConfigError, match=f'with between {between!r}'):
        SkipSampler(5, (0,), between, velocities)


def test_an_unknown_rule_between_computed_steps_is_refused():
    with pytest.raises(ConfigError, match="found 'guess', expected one of hold, extrapolate"):
        SkipSampler(5, (0,), 'guess')
