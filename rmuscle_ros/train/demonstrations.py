"""One episode of the scripted expert: what was seen, and what the undisturbed plan would do.

Most episodes are executed with deviations (``disturbance``); the labels are always those of the
clean plan, so that the data show the way back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmuscle_ros.errors import RmuscleError
from rmuscle_ros.sim import aloha
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import Task
from rmuscle_ros.train.disturbance import Disturbance, draw_disturbance

DISTURBED_SHARE = 0.8
SETTLE_STEPS = 15
# How many observations lie in which control steps: dense while the cube must be found and while
# it is handed over, where most policies fail.
FRAMES = {
    'transfer_cube': (((1, 50), 9), ((50, 100), 7), ((100, 168), 13), ((168, 260), 3)),
    'lift_cube': (((1, 50), 9), ((50, 100), 7), ((100, 190), 8)),
}
MAX_ATTEMPTS = 20


@dataclass(frozen=True)
class Demonstration:
    """One successful episode.

    images: uint8 [N, cameras, S, S, 3], RGB, in the order of ``aloha.CAMERAS``.
    states: float32 [N, 14], joint positions, rad (m for fingers).
    cubes: float32 [N, 3], centre of the cube, world, m.
    steps: int32 [N], control steps since the start of the episode.
    plan: float32 [T, 14], the clean targets; row k is the one for control step k + 1.
    """

    task: str
    seed: int
    attempt: int
    images: np.ndarray
    states: np.ndarray
    cubes: np.ndarray
    steps: np.ndarray
    plan: np.ndarray


def demonstrate(station: AlohaStation, expert: Expert, seed: int) -> Demonstration:
    """A successful episode of the station's task; the same seed gives the same one.

    The scene is gym-aloha's for ``seed``. Deviations that make the expert fail are drawn again;
    raises RmuscleError when ``MAX_ATTEMPTS`` of them do.
    """
    for attempt in range(MAX_ATTEMPTS):
        rng = np.random.default_rng((seed, attempt))
        found = _attempt(station, expert, seed, attempt, rng)
        if found is not None:
            return found
    raise RmuscleError(
        f'{station.task.name}, seed {seed}: the expert failed in {MAX_ATTEMPTS} attempts; '
        'expected most to succeed: check the scene and the size of the disturbances'
    )


def _attempt(
    station: AlohaStation, expert: Expert, seed: int, attempt: int, rng: np.random.Generator
) -> Demonstration | None:
    task = station.task
    steps = _frame_steps(task, rng)
    disturbance = draw_disturbance(task, rng) if rng.random() < DISTURBED_SHARE else None
    station.reset(seed)
    start = aloha.HOME if disturbance is None else disturbance.start
    if disturbance is not None:
        for _ in range(SETTLE_STEPS):
            station.step(start)
    cube = station.cube_position()[:2]
    plan = expert.plan(cube, task.name, start)
    targets = plan if disturbance is None else _disturb(expert, task, cube, plan, disturbance)
    images, states, cubes = [], [], []
    for step in range(steps[-1] + 1):
        if step in steps:
            pictures = station.render()
            images.append(np.stack([pictures[name] for name in aloha.CAMERAS]))
            states.append(station.joint_positions())
            cubes.append(station.cube_position())
        station.step(targets[min(step, task.steps - 1)])
    if not station.success:
        return None
    return Demonstration(
        task=task.name,
        seed=seed,
        attempt=attempt,
        images=np.stack(images),
        states=np.array(states, np.float32),
        cubes=np.array(cubes, np.float32),
        steps=steps,
        plan=plan.astype(np.float32),
    )


def _frame_steps(task: Task, rng: np.random.Generator) -> np.ndarray:
    """Sorted control steps at which to look; the first and the task's last are always there."""
    drawn = [
        rng.choice(np.arange(begin, end), count, replace=False)
        for (begin, end), count in FRAMES[task.name]
    ]
    return np.unique(np.concatenate([[0, task.steps], *drawn])).astype(np.int32)


def _disturb(
    expert: Expert, task: Task, cube: np.ndarray, plan: np.ndarray, disturbance: Disturbance
) -> np.ndarray:
    """The targets to execute instead of ``plan``."""
    wrong = expert.plan(cube + disturbance.cube_error, task.name, disturbance.start)
    fade = np.clip(1.0 - np.arange(1, task.steps + 1) / disturbance.cube_fade, 0.0, 1.0)
    targets = plan + fade[:, None] * (wrong - plan) + disturbance.joints
    return np.clip(targets, aloha.LOWER, aloha.UPPER)
