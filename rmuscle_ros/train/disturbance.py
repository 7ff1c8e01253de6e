"""Smooth deviations from the expert's plan, so that a dataset shows how to recover from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.tasks import Task

START_RAD = 0.03
START_FINGER_M = 0.004
CUBE_ERROR_M = 0.02
JOINT_RAD = 0.05
FINGER_M = 0.003
# Control steps over which a joint's deviation changes by about its own size.
KNOT_STEPS = 18
# The reach for the cube is free of deviations in these steps: the fingers must close around it.
QUIET_GRASP = (60, 84)
# At the hand-over only what the fingers tolerate, and nothing while both of them hold the cube.
QUIET_HAND_OVER = (138, 166)
QUIET_SHARE = 0.2
FADE_STEPS = 10


@dataclass(frozen=True)
class Disturbance:
    """One episode's deviations.

    start: [14], where the arms are before the first step, rad (m for fingers).
    cube_error: [2], error of the place the arm first aims at, m.
    cube_fade: control step at which that error has faded out, linearly from step 0.
    joints: [steps, 14], added to the targets, rad (m for fingers).
    """

    start: np.ndarray
    cube_error: np.ndarray
    cube_fade: int
    joints: np.ndarray


def draw_disturbance(task: Task, rng: np.random.Generator) -> Disturbance:
    """Random deviations for one episode of ``task``."""
    spread = np.full(14, START_RAD)
    spread[[aloha.LEFT_GRIPPER, aloha.RIGHT_GRIPPER]] = START_FINGER_M
    start = np.clip(aloha.HOME + spread * rng.normal(size=14), aloha.LOWER, aloha.UPPER)
    strength = rng.uniform(0.1, 1.0)
    amplitude = np.full(14, JOINT_RAD * strength)
    amplitude[[aloha.LEFT_GRIPPER, aloha.RIGHT_GRIPPER]] = FINGER_M * strength
    waves = _smooth_noise(task.steps, rng) * amplitude * _envelope(task.steps)[:, None]
    return Disturbance(
        start=start,
        cube_error=np.clip(rng.normal(size=2), -2.0, 2.0) * CUBE_ERROR_M,
        cube_fade=int(rng.integers(40, QUIET_GRASP[0] + 1)),
        joints=waves,
    )


def _smooth_noise(steps: int, rng: np.random.Generator) -> np.ndarray:
    """[steps, 14]: normal values every ``KNOT_STEPS``, joined by cosines; a part stays 0."""
    knots = np.arange(-KNOT_STEPS, steps + KNOT_STEPS, KNOT_STEPS)
    values = rng.normal(size=(len(knots), 14)) * (rng.random((len(knots), 14)) < 0.6)
    at = np.arange(steps) + rng.uniform(-KNOT_STEPS, 0.0)
    position = (at + KNOT_STEPS) / KNOT_STEPS
    index = np.clip(position.astype(int), 0, len(knots) - 2)
    blend = (0.5 - 0.5 * np.cos(np.pi * np.clip(position - index, 0.0, 1.0)))[:, None]
    return (1.0 - blend) * values[index] + blend * values[index + 1]


def _envelope(steps: int) -> np.ndarray:
    """[steps], 1 outside the quiet phases, ``QUIET_SHARE`` inside, linear between."""
    at = np.arange(steps, dtype=np.float64)
    envelope = np.ones(steps)
    for begin, end in (QUIET_GRASP, QUIET_HAND_OVER):
        distance = np.maximum(np.maximum(begin - at, at - end), 0.0)
        share = np.clip(distance / FADE_STEPS, 0.0, 1.0)
        envelope = np.minimum(envelope, QUIET_SHARE + (1.0 - QUIET_SHARE) * share)
    return envelope
