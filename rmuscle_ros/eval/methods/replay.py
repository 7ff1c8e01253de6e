"""replay: the most similar past call's own actions; neither prefill nor denoise steps run.

Source: the idea of RT-Cache (retrieval of past action sequences by visual similarity).
"""

from __future__ import annotations

from typing import Any

import torch

from rmuscle_ros.config import with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.eval.methods.base import Answer, Method, Request, answer_of
from rmuscle_ros.eval.methods.references import References
from rmuscle_ros.eval.methods.settings import ReplaySettings
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import PolicyInfo, Reason


class Replay(Method):
    """The vision tower still runs: it gives the key of the search."""

    def __init__(
        self, engine: EagerEngine, library: Library, info: PolicyInfo, **settings: Any
    ) -> None:
        """settings: fields of ReplaySettings."""
        super().__init__(engine, library, info)
        self.settings: ReplaySettings = with_values(ReplaySettings(), settings)
        self._references = References(library, self.settings.least_similarity)

    @torch.inference_mode()
    def _answer(self, request: Request) -> Answer:
        observed = request.observed
        match = self._references.search(observed.key, request.task)
        entry = match.entry
        if entry is None:
            result = self._engine.run(observed, None, request.noise)
            return answer_of(result, match.reason, match.detail, match.similarity)
        inputs = observed.inputs if self.settings.relative else entry.inputs
        normalised = torch.from_numpy(entry.actions)[None].to(self._engine.device)
        actions = self._engine.model.unnormalise(normalised, inputs).cpu().numpy()
        return Answer(actions, 0.0, 0.0, Reason.CACHED, '', match.similarity, entry.id)
