"""The look-or-guess correlation: does the policy see the cube, or guess from the arm's motion?

On early frames the end of a chunk depends on where the cube is. A policy that looks gets there;
one that guesses predicts the mean, and its loss hardly differs.
"""

from __future__ import annotations

import numpy as np
import torch

from rmuscle_ros.engine.sampler import EulerSampler
from rmuscle_ros.models.base import StepFfn
from rmuscle_ros.train.objective import Objective
from rmuscle_ros.train.samples import Batch, TaskFrames

CUBE_JOINTS = (7, 8, 9)  # waist, shoulder and elbow of the right arm
EARLY_STEPS = 12
MIN_FRAMES = 10
STEPS = 10


def early_batch(frames: TaskFrames) -> Batch | None:
    """The frames of the first ``EARLY_STEPS`` control steps; None when they are too few."""
    early = np.flatnonzero(frames.steps < EARLY_STEPS)
    return frames.batch(early) if len(early) >= MIN_FRAMES else None


@torch.no_grad()
def correlation(objective: Objective, batch: Batch, ffn: StepFfn) -> float:
    """Lowest of the three joints' correlations between predicted and true chunk ends."""
    targets = predict(objective, batch, ffn)[:, -1].cpu().numpy()
    truth = batch.targets[:, -1].cpu().numpy()
    return min(
        float(np.corrcoef(targets[:, joint], truth[:, joint])[0, 1]) for joint in CUBE_JOINTS
    )


@torch.no_grad()
def predict(objective: Objective, batch: Batch, ffn: StepFfn) -> torch.Tensor:
    """Joint targets [B, H, J] for a batch, with fixed noise."""
    model = objective.model
    cache = objective.prefill(batch).cache
    sampler = EulerSampler(STEPS)
    conditions = model.step_conditions(batch.states.new_tensor(sampler.times()))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(batch.targets.shape, generator=generator).to(batch.states.device)
    x = sampler(noise, lambda a, s: model.denoise(cache, a, conditions, s, ffn), ffn)
    actions = x.float() * model.action_std + model.action_mean
    return actions + model.action_relative * batch.states[:, None]
