"""A policy, or another method behind its interface, acts on the simulated station in one process.

Every ``execution_horizon`` control steps the policy sees the station and the next rows of its
chunk are executed; row k is the target of control step k + 1 after the observation. Simulated time
stands still during a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import ActionChunk, Observation, PolicyInfo

# Control steps in a row that must succeed by the task's own rule, as the station node counts it.
SUCCESS_STEPS = 5
EXECUTION_HORIZON = 25
# Twice what the expert needs.
TIME_FACTOR = 2.0


OnCall = Callable[[Observation, np.ndarray, ActionChunk], None]


class Actor(Protocol):
    """What can act: a ``Policy``, or another method. One thread at a time."""

    @property
    def info(self) -> PolicyInfo: ...

    def infer(
        self, observation: Observation, *, noise: np.ndarray | None = None
    ) -> ActionChunk: ...

    def reset(self) -> None:
        """Begin a new episode."""

    def end_episode(self, success: bool) -> object:
        """End the episode and begin the next one."""

    def drain(self, timeout_s: float) -> bool:
        """Wait until no work is left in the background; False on timeout."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Rollout:
    """How one episode went. ``lifted``: reward 2, the cube off the table in the right gripper."""

    task: str
    seed: int
    success: bool
    max_reward: int
    steps: int
    calls: int

    @property
    def lifted(self) -> bool:
        return self.max_reward >= 2


def observe(station: AlohaStation) -> Observation:
    """What the policy is given of the station's present state."""
    joints = zip(station.JOINT_NAMES, map(float, station.joint_positions()), strict=True)
    return Observation(station.render(), dict(joints), station.task.instruction, station.time_s)


def roll_out(
    actor: Actor,
    station: AlohaStation,
    seed: int,
    execution_horizon: int = EXECUTION_HORIZON,
    on_call: OnCall | None = None,
) -> Rollout:
    """One episode of the station's task, until success or its time is up.

    The flow's noise is drawn from ``seed`` as the scene is: the same seed gives the same episode,
    and different settings of the caches can be compared in pairs.

    on_call: is given the observation, noise [H, A] and chunk of every call, before the chunk is
        executed.
    The actor's episode is begun but not ended: ``actor.end_episode`` is the caller's.
    """
    rng = np.random.default_rng(seed)
    info = actor.info
    joints = len(info.joint_names)
    order = [info.joint_names.index(name) for name in station.JOINT_NAMES]
    limit = int(station.task.steps * TIME_FACTOR)
    station.reset(seed)
    actor.reset()
    calls = held = 0
    while station.steps < limit and held < SUCCESS_STEPS:
        noise = rng.standard_normal((info.horizon, joints), np.float32)
        observation = observe(station)
        chunk = actor.infer(observation, noise=noise)
        if on_call is not None:
            on_call(observation, noise, chunk)
        calls += 1
        for targets in chunk.actions[:execution_horizon, order]:
            station.step(targets)
            held = held + 1 if station.success else 0
            if held == SUCCESS_STEPS:
                break
    return Rollout(
        task=station.task.name,
        seed=seed,
        success=held == SUCCESS_STEPS,
        max_reward=station.max_reward,
        steps=station.steps,
        calls=calls,
    )
