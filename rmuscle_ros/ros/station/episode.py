"""When an episode of the station begins and ends, and with which result. No ROS."""

from __future__ import annotations

from dataclasses import dataclass

# Control steps in a row that must succeed by the task's own rule: one lucky contact is not enough.
SUCCESS_STEPS = 5


@dataclass(frozen=True)
class Outcome:
    """How an episode ended; ``max_reward`` is gym-aloha's own, 0 to 4."""

    seed: int
    success: bool
    max_reward: int
    steps: int


class Episode:
    """One episode: waits for its first trajectory, then runs until success or its time is up.

    seed: of the scene.
    length_s: longest duration after the first accepted trajectory.
    """

    def __init__(self, seed: int, length_s: float) -> None:
        self.seed = seed
        self._length_s = length_s
        self._begin_s: float | None = None
        self._steps = 0
        self._held = 0
        self._ended = False

    @property
    def running(self) -> bool:
        return self._begin_s is not None and not self._ended

    def begin(self, now_s: float) -> None:
        """The first trajectory was accepted; later calls change nothing."""
        if self._begin_s is None:
            self._begin_s = now_s

    def step(self, now_s: float, success: bool, max_reward: int) -> Outcome | None:
        """Count a control step; the outcome in the step that ends the episode, else None."""
        if self._begin_s is None or self._ended:
            return None
        self._steps += 1
        self._held = self._held + 1 if success else 0
        succeeded = self._held >= SUCCESS_STEPS
        self._ended = succeeded or now_s - self._begin_s >= self._length_s
        if not self._ended:
            return None
        return Outcome(self.seed, succeeded, max_reward, self._steps)
