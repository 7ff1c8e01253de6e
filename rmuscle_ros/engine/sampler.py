"""The loop over denoise steps. A seam of its own, so that other methods can skip steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rmuscle_ros.models.base import StepFfn


@dataclass(frozen=True)
class EulerSampler:
    """Flow matching from t = 1 (noise) to 0 (actions) in equal Euler steps, as in π0.5."""

    steps: int

    def times(self) -> Tensor:
        """Flow time at the start of each step, [steps]."""
        return 1 - torch.arange(self.steps, dtype=torch.float32) / self.steps

    def __call__(
        self, noise: Tensor, velocity: Callable[[Tensor, int], Tensor], ffn: StepFfn
    ) -> Tensor:
        """noise [1, H, A], fp32; velocity(x, step) -> [1, H, A]; returns actions [1, H, A], fp32.

        The sum stays in fp32 whatever the model computes in, as in π0.5.
        """
        x = noise
        for step in range(self.steps):
            ffn.begin_step(step)
            x = x - velocity(x, step).float() / self.steps
        return x
