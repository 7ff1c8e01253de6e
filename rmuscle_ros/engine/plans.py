"""What an engine is asked for and what it answers. The same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rmuscle_ros.cache.action import ActionFfn, ActionPlan
from rmuscle_ros.cache.context import ContextTrace
from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.cache.states import ExpandedState, NeuronMasks
from rmuscle_ros.models.base import Prefix
from rmuscle_ros.types import ModelInputs


@dataclass(frozen=True)
class Observed:
    """A call up to the visual key. key: float32 [V * Dv], L2-normalised."""

    inputs: ModelInputs
    prefix: Prefix
    key: np.ndarray
    vision_ms: float


@dataclass(frozen=True)
class CachedPlan:
    """Run with the caches.

    states: references that serve together, row by row; none leaves the Context Cache off.
    rho_p: share of visual rows recomputed, with a guard the least one.
    action: how denoise steps are reused; None computes all of them.
    keep_action: whether ``action`` stays on when no reference is used, if it needs none.
    noise: float32 [H, A] that replaces the call's own when a reference is used; None: its own.
    drift_limits: float32 [views], the drift fence; None measures raw drift and never falls back.
    """

    states: tuple[ExpandedState, ...]
    rho_p: float
    action: ActionPlan | None = None
    drift_limits: np.ndarray | None = None
    guard: Guard | None = None
    keep_action: bool = False
    noise: np.ndarray | None = None

    @property
    def without_reference(self) -> CachedPlan | None:
        """What is left of the plan when no reference is used; None: a dense call."""
        if self.action is None or self.action.needs_reference or not self.keep_action:
            return None
        return CachedPlan((), 1.0, self.action)


@dataclass(frozen=True)
class RecordPlan:
    """Run densely; keep neuron masks for the steps between ``anchors``, and the velocities."""

    anchors: tuple[int, ...]
    score: str


Plan = CachedPlan | RecordPlan | None


@dataclass(frozen=True)
class Recorded:
    """What a call under a RecordPlan leaves behind. velocity: float16 [steps, H, A]."""

    masks: NeuronMasks
    velocity: np.ndarray


@dataclass(frozen=True)
class CallResult:
    """actions: float32 [H, J], joint units; normalised, noise: float32 [H, A].

    reused: whether any reference state was used; False too when a fence or the guard of a
        CachedPlan made the call dense.
    action: how the denoise steps were reused; None when all were computed.
    cache: what the prefill returned, for the RowReuse of a later call.
    """

    actions: np.ndarray
    normalised: np.ndarray
    noise: np.ndarray
    prefill_ms: float
    denoise_ms: float
    reused: bool = False
    action: ActionPlan | None = None
    cache: Any = None
    context: ContextTrace | None = None
    action_ffn: ActionFfn | None = None
    recorded: Recorded | None = None
