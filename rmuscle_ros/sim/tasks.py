"""The tasks of the station: what is asked for, and when it counts as done."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from rmuscle_ros.errors import ConfigError


@dataclass(frozen=True)
class Task:
    """One task on gym-aloha's transfer-cube scene, judged by gym-aloha's own reward.

    That reward is 1 when the right gripper touches the cube, 2 when it has lifted it, 3 when the
    left gripper touches it and 4 when it does so off the table.

    reward: success needs a reward of at least this ...
    hold_steps, hold_share: ... in this share of the last ``hold_steps`` control steps. Not in all
        of them: a held cube loses contact for single steps, and the reward drops to 0 with it.
    latched: success stays once it was reached; otherwise it is lost when the reward drops.
    steps: control steps the scripted expert takes.
    """

    name: str
    instruction: str
    reward: int
    hold_steps: int
    hold_share: float
    latched: bool
    steps: int


TASKS = {
    task.name: task
    for task in (
        Task(
            name='transfer_cube',
            instruction='hand over the red cube from the right to the left arm',
            reward=4,
            hold_steps=1,
            hold_share=1.0,
            latched=True,
            steps=250,
        ),
        Task(
            name='lift_cube',
            instruction='lift the red cube with the right arm',
            reward=2,
            hold_steps=25,
            hold_share=0.8,
            latched=False,
            steps=150,
        ),
    )
}


def find_task(name: str) -> Task:
    """The task of this name, or a ConfigError that lists them."""
    try:
        return TASKS[name]
    except KeyError:
        raise ConfigError(f'task: found {name!r}, expected one of {", ".join(TASKS)}') from None


class SuccessJudge:
    """Follows the rewards of one episode and says whether the task counts as done."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.max_reward = 0
        self.success = False
        self._reached: deque[bool] = deque(maxlen=task.hold_steps)

    def observe(self, reward: int) -> None:
        """Take the reward of one more control step."""
        self.max_reward = max(self.max_reward, reward)
        self._reached.append(reward >= self.task.reward)
        held = sum(self._reached) >= self.task.hold_share * self.task.hold_steps
        self.success = held or (self.task.latched and self.success)
