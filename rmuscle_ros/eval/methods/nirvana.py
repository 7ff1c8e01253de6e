"""nirvana: the flow starts late, from the intermediate state of a similar past call.

Source: the idea of NIRVANA (arXiv 2312.04429). A flow's path from noise z to actions a is nearly
straight, so its state at step K needs not be stored: x_t = t z + (1 - t) a, t = 1 - K / steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rmuscle_ros.config import with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.sampler import EulerSampler
from rmuscle_ros.eval.methods.base import Answer, Method, Request, answer_of
from rmuscle_ros.eval.methods.references import References
from rmuscle_ros.eval.methods.settings import NirvanaSettings
from rmuscle_ros.memory.entry import Entry
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import PolicyInfo, Reason


class Nirvana(Method):
    """Skips the first ``start_step`` steps wherever a past call is similar enough."""

    def __init__(
        self, engine: EagerEngine, library: Library, info: PolicyInfo, **settings: Any
    ) -> None:
        """settings: fields of NirvanaSettings."""
        super().__init__(engine, library, info)
        self.settings: NirvanaSettings = with_values(NirvanaSettings(), settings)
        self._references = References(library, self.settings.least_similarity)
        self._sampler = EulerSampler(engine.sampler.steps, self.settings.start_step)

    def _answer(self, request: Request) -> Answer:
        observed = request.observed
        match = self._references.search(observed.key, request.task)
        if match.entry is None:
            result = self._engine.run(observed, None, request.noise)
            return answer_of(result, match.reason, match.detail, match.similarity)
        state = self._state(match.entry, request.noise)
        result = self._engine.run(observed, None, state, sampler=self._sampler)
        return answer_of(result, Reason.CACHED, '', match.similarity, match.entry.id)

    def _state(self, entry: Entry, noise: np.ndarray) -> np.ndarray:
        """The state at the first step that is computed, float32 [H, A]."""
        t = np.float32(self._sampler.times()[0])
        z = entry.noise if self.settings.noise == 'reference' else noise
        return t * z + (1 - t) * entry.actions
