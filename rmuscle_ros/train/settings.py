"""Every number of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from rmuscle_ros.config import option


@dataclass(frozen=True)
class TrainSettings:
    """A run is a function of these, of its model's sizes and of its dataset.

    The first ``look_steps`` and ``blind_steps`` are what keeps the policy from guessing where the
    cube is (``objective`` says why).
    """

    steps: int = option(
        4000, 'Optimiser steps in all; the learning rate reaches 0 there.', minimum=1
    )
    look_steps: int = option(
        200, 'First steps: the vision tower alone learns to tell where the cube is.', minimum=0
    )
    blind_steps: int = option(
        100, 'Next steps: the prefix as well, its state row zeroed.', minimum=0
    )
    batch: int = option(32, 'Observations per step.', minimum=1)
    draws: int = option(
        2, 'Flow times and noises per observation; they share its prefix.', minimum=1
    )
    lift_share: float = option(0.2, 'Share of lift_cube in each batch.', minimum=0.0, maximum=1.0)
    early_steps: int = option(50, 'Frames before this control step are early ones.', minimum=1)
    early_weight: float = option(
        3.0, 'How much more often an early frame is drawn than another.', minimum=0.1
    )
    cube_weight: float = option(0.5, 'Weight of the auxiliary loss.', minimum=0.0)
    learning_rate: float = option(
        1e-3, 'Highest learning rate (AdamW).', minimum=1e-7, maximum=1.0
    )
    warm_up_steps: int = option(
        100, 'Linear warm-up of each phase; then follows a cosine.', minimum=1
    )
    weight_decay: float = option(1e-4, 'Of AdamW.', minimum=0.0, maximum=1.0)
    gradient_norm: float = option(1.0, 'Gradients are clipped to this norm.', minimum=1e-6)
    ema: float = option(
        0.998,
        'Decay of the averaged weights, which are the ones shipped.',
        minimum=0.0,
        maximum=0.99999,
    )
    seed: int = option(0, 'Of weights, batches and noise.', minimum=0)
    validation: int = option(
        32, 'Episodes of transfer_cube kept for the look-or-guess correlation.', minimum=0
    )
    look_every: int = option(100, 'Steps between correlations; 0: none.', minimum=0)
    check_every: int = option(500, 'Steps between closed-loop checks; 0: none.', minimum=0)
    check_episodes: int = option(10, 'Episodes of each task per closed-loop check.', minimum=1)
    save_every: int = option(100, 'Steps between checkpoints.', minimum=1)
