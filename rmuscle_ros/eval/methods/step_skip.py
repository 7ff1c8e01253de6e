"""step_skip: denoise outputs are reused on skipped steps.

Source: the idea of DP-Cache (arXiv 2604.24447), here on the velocity of the whole action head.
"""

from __future__ import annotations

from typing import Any

from rmuscle_ros.config import with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.sampler import SkipSampler
from rmuscle_ros.eval.methods.base import Answer, Method, Request, answer_of
from rmuscle_ros.eval.methods.settings import StepSkipSettings
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import PolicyInfo, Reason


class StepSkip(Method):
    """The engine's own number of steps, of which only the ``computed`` ones run the network."""

    def __init__(
        self, engine: EagerEngine, library: Library, info: PolicyInfo, **settings: Any
    ) -> None:
        """settings: fields of StepSkipSettings."""
        super().__init__(engine, library, info)
        self.settings: StepSkipSettings = with_values(StepSkipSettings(), settings)
        self._sampler = SkipSampler(
            engine.sampler.steps,
            self.settings.computed,
            self.settings.between,
        )
        self._skips = len(self.settings.computed) < engine.sampler.steps

    def _answer(self, request: Request) -> Answer:
        result = self._engine.run(request.observed, None, request.noise, sampler=self._sampler)
        if not self._skips:
            return answer_of(result, Reason.CACHE_DISABLED, 'no step is skipped')
        return answer_of(result, Reason.CACHED)
