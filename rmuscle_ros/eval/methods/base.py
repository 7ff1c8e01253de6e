"""What every method shares: the frame of a call, and its chunk with provenance."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.engine.eager import EagerEngine, check_finite
from rmuscle_ros.engine.plans import CallResult, Observed
from rmuscle_ros.memory.entry import TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.types import (
    ActionChunk,
    Mode,
    Observation,
    PolicyInfo,
    Provenance,
    Reason,
    StageTimes,
)


@dataclass(frozen=True)
class Request:
    """A call up to the visual key. noise: float32 [H, A]."""

    observed: Observed
    task: TaskKey
    noise: np.ndarray


@dataclass(frozen=True)
class Answer:
    """What a method made of a call. actions: float32 [H, J], joint units.

    reason: CACHED when something was reused, else why not.
    """

    actions: np.ndarray
    prefill_ms: float
    denoise_ms: float
    reason: Reason
    detail: str = ''
    similarity: float | None = None
    reference_id: str | None = None


class Method(ABC):
    """An actor (see ``rollout.Actor``) without background work. One thread at a time.

    Subclasses take their settings as keywords and implement ``_answer``; those with a state of
    the episode extend ``reset``.
    """

    def __init__(self, engine: EagerEngine, library: Library, info: PolicyInfo) -> None:
        """library: reference episodes, read at every call; never changed."""
        self.info = info
        self._engine = engine
        self._library = library
        self._instruction: str | None = None
        self._call = self._episode = 0

    @abstractmethod
    def _answer(self, request: Request) -> Answer:
        """Answer one call."""

    def infer(self, observation: Observation, *, noise: np.ndarray | None = None) -> ActionChunk:
        """One call. noise: float32 [H, A] for paired comparisons, else fresh.

        Raises ObservationError (nothing was computed), or PolicyError for actions that are not
        finite.
        """
        start = time.perf_counter()
        inputs = prepare(observation, self._engine.model)
        if self._instruction not in (None, inputs.instruction):
            self.reset()
        self._instruction = inputs.instruction
        noise = self._engine.draw_noise() if noise is None else noise
        observed = self._engine.observe(inputs)
        task = TaskKey(inputs.instruction, self.info.fingerprint, inputs.cameras)
        answer = self._answer(Request(observed, task, noise))
        check_finite(answer.actions, self.info.model)
        total_ms = (time.perf_counter() - start) * 1e3
        times = StageTimes(
            observed.vision_ms, answer.prefill_ms, answer.denoise_ms, total_ms, gate_wait_ms=0.0
        )
        provenance = Provenance(
            call=self._call,
            episode=self._episode,
            mode=Mode.CACHED if answer.reason is Reason.CACHED else Mode.DENSE,
            reason=answer.reason,
            detail=answer.detail,
            times=times,
            observation_stamp_s=observation.stamp_s,
            similarity=answer.similarity,
            reference_id=answer.reference_id,
        )
        self._call += 1
        return ActionChunk(
            answer.actions,
            self.info.joint_names,
            self.info.period_s,
            observation.stamp_s,
            provenance,
        )

    def reset(self) -> None:
        """Begin a new episode."""
        self._instruction = None
        self._episode += 1

    def end_episode(self, success: bool) -> None:  # noqa: ARG002, the actor's interface
        """End the episode and begin the next one; nothing is recorded."""
        self.reset()

    def drain(self, timeout_s: float) -> bool:  # noqa: ARG002, the actor's interface
        """Nothing runs in the background."""
        return True

    def close(self) -> None:  # noqa: B027, not abstract: there is nothing to do
        """Nothing to stop; engine and library are the caller's."""


def answer_of(
    result: CallResult,
    reason: Reason,
    detail: str = '',
    similarity: float | None = None,
    reference_id: str | None = None,
) -> Answer:
    """The answer that is a run of the engine."""
    return Answer(
        result.actions,
        result.prefill_ms,
        result.denoise_ms,
        reason,
        detail,
        similarity,
        reference_id,
    )
