"""Every number of a training run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainSettings:
    """A run is a function of these, its model's sizes and its dataset.

    steps: optimiser steps in all; the learning rate ends at 0 there.
    look_steps: the first of those train the vision tower alone to tell where the cube is ...
    blind_steps: ... and the next ones the prefix as well, with its state row zeroed; both on
        early frames only (``objective`` says why).
    batch: observations per step; lift_share: of them of the task ``lift_cube``.
    draws: flow times and noises per observation; they share its prefix.
    early_weight: how much more often a frame before control step ``early_steps`` is drawn.
    cube_weight: of the auxiliary loss.
    validation: episodes of ``transfer_cube`` kept out of training, for the correlation.
    check_every: optimiser steps between checks (correlation, closed loop); 0 for none.
    check_episodes: closed-loop episodes of each task per check.
    save_every: optimiser steps between checkpoints.
    """

    steps: int = 4000
    look_steps: int = 200
    blind_steps: int = 100
    batch: int = 32
    draws: int = 2
    lift_share: float = 0.2
    early_steps: int = 50
    early_weight: float = 3.0
    cube_weight: float = 0.5
    learning_rate: float = 1e-3
    warm_up_steps: int = 100
    weight_decay: float = 1e-4
    gradient_norm: float = 1.0
    ema: float = 0.998
    seed: int = 0
    validation: int = 32
    check_every: int = 500
    check_episodes: int = 10
    save_every: int = 100
