"""Loops over denoise steps: a seam of its own, so that steps can be skipped or started late.

Flow matching as in π0.5: from t = 1 (noise) to 0 (actions), dx/dt = velocity. The sum stays in
fp32 whatever the model computes in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from torch import Tensor

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.models.base import StepFfn

Velocity = Callable[[Tensor, int], Tensor]
BETWEEN = ('hold', 'extrapolate', 'reference')


class Sampler(Protocol):
    """Integrates the flow with one evaluation of the network at each of ``times()``."""

    def times(self) -> tuple[float, ...]:
        """Flow times at which the network is evaluated, falling."""

    def __call__(self, noise: Tensor, velocity: Velocity, ffn: StepFfn) -> Tensor:
        """noise [1, H, A], fp32: the state at ``times()[0]``; returns actions [1, H, A], fp32.

        velocity(x, n) -> [1, H, A] at ``times()[n]``; ``ffn.begin_step(n)`` comes before it.
        """


@dataclass(frozen=True)
class EulerSampler:
    """``steps`` equal Euler steps, as in π0.5, without the ``first`` ones.

    With ``first`` > 0 the sampler starts late: it takes the state at t = 1 - first / steps where
    others take noise.
    """

    steps: int
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.steps:
            raise ConfigError(
                f'first: found step {self.first} of {self.steps}, expected 0 to {self.steps - 1}'
            )

    def times(self) -> tuple[float, ...]:
        return tuple(1 - step / self.steps for step in range(self.first, self.steps))

    def __call__(self, noise: Tensor, velocity: Velocity, ffn: StepFfn) -> Tensor:
        x = noise
        for n in range(self.steps - self.first):
            ffn.begin_step(n)
            x = x - velocity(x, n).float() / self.steps
        return x


@dataclass(frozen=True)
class SkipSampler:
    """``steps`` equal Euler steps of which only the ``computed`` ones evaluate the network.

    The others reuse its outputs. ``between`` says how:

    hold         the last output; over k steps the same as one Euler step k times as long
    extrapolate  the line through the last two outputs
    reference    the last output plus what the reference's changed since, ``reference`` [steps, H,
                 A]; right only under the reference's own noise
    """

    steps: int
    computed: tuple[int, ...]
    between: str = 'hold'
    reference: Tensor | None = None

    def __post_init__(self) -> None:
        below = all(step < self.steps for step in self.computed)
        rising = all(earlier < later for earlier, later in pairwise(self.computed))
        if not (below and rising and self.computed[:1] == (0,)):
            raise ConfigError(
                f'computed: found steps {list(self.computed)}, expected rising numbers below '
                f'{self.steps} that begin with 0: before it there is nothing to reuse'
            )
        if self.between not in BETWEEN:
            raise ConfigError(
                f'between: found {self.between!r}, expected one of {", ".join(BETWEEN)}'
            )
        if (self.between == 'reference') != (self.reference is not None):
            raise ConfigError(
                f'reference: found {"none" if self.reference is None else "velocities"} with '
                f'between {self.between!r}; "reference" needs them, the others do not take them'
            )

    def times(self) -> tuple[float, ...]:
        return tuple(1 - step / self.steps for step in self.computed)

    def __call__(self, noise: Tensor, velocity: Velocity, ffn: StepFfn) -> Tensor:
        x = noise
        known: list[tuple[int, Tensor]] = []
        for step in range(self.steps):
            if step in self.computed:
                n = self.computed.index(step)
                ffn.begin_step(n)
                known = [*known[-1:], (step, velocity(x, n).float())]
            x = x - self._output(known, step) / self.steps
        return x

    def _output(self, known: list[tuple[int, Tensor]], step: int) -> Tensor:
        """The network's output at ``step``; known: its last two evaluations, or the only one."""
        last, output = known[-1]
        if step == last or self.between == 'hold':
            return output
        if self.reference is not None:
            return output + (self.reference[step] - self.reference[last]).to(output)
        if len(known) == 1:
            return output
        before, earlier = known[0]
        return output + (output - earlier) * ((step - last) / (last - before))
