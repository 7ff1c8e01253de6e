"""token_kv: static visual tokens keep the K/V of the previous call.

Source: the idea of VLA-Cache (arXiv 2502.02175). Tokens are compared where they enter the prefix,
after the vision tower, with what they were when their K/V were computed: a token that changes
slowly is renewed in time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rmuscle_ros.config import with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.eval.methods.base import Answer, Method, Request, answer_of
from rmuscle_ros.eval.methods.settings import TokenKvSettings
from rmuscle_ros.kernels.token_drift import select_rows, token_drift
from rmuscle_ros.memory.entry import TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.base import Prefix, RowReuse
from rmuscle_ros.types import PolicyInfo, Reason


@dataclass(frozen=True)
class _Earlier:
    """The previous call. x: [T, D], every row as it was when its K/V were computed."""

    task: TaskKey
    x: Tensor
    cache: Any


class TokenKv(Method):
    """The rows of instruction and state are always computed, as are the tokens that changed."""

    def __init__(
        self, engine: EagerEngine, library: Library, info: PolicyInfo, **settings: Any
    ) -> None:
        """settings: fields of TokenKvSettings."""
        super().__init__(engine, library, info)
        self.settings: TokenKvSettings = with_values(TokenKvSettings(), settings)
        self._earlier: _Earlier | None = None

    def reset(self) -> None:
        """Begin a new episode: its first call is dense."""
        super().reset()
        self._earlier = None

    @torch.inference_mode()
    def _answer(self, request: Request) -> Answer:
        start = time.perf_counter()
        prefix, earlier = request.observed.prefix, self._earlier
        reuse, x, detail = None, prefix.x[0], 'first call of the episode or of these cameras'
        if earlier is not None and earlier.task == request.task:
            rows = self._computed(prefix, earlier.x)
            kept = len(x) - len(rows)
            reuse = RowReuse(rows, earlier.cache) if kept else None
            x = earlier.x.index_copy(0, rows, x.index_select(0, rows))
            detail = f'{kept} of {len(prefix.visual)} visual tokens kept'
        select_ms = (time.perf_counter() - start) * 1e3
        result = self._engine.run(request.observed, None, request.noise, reuse=reuse)
        self._earlier = _Earlier(request.task, x, result.cache)
        reason = Reason.CACHED if reuse else Reason.NO_REFERENCE
        return replace(answer_of(result, reason, detail), prefill_ms=select_ms + result.prefill_ms)

    def _computed(self, prefix: Prefix, earlier: Tensor) -> Tensor:
        """Rows to compute, int64 ascending; earlier: [T, D]."""
        visual = prefix.visual
        drift = token_drift(prefix.x[0].index_select(0, visual), earlier.index_select(0, visual))
        # Not ">": a drift that is not a number must not pass.
        changed = ~(drift <= self.settings.most_drift)
        changed[select_rows(drift, self.settings.recompute)[0]] = True
        return torch.cat((visual[changed], prefix.text)).sort().values
