"""The eager PyTorch engine: every operation as the model writes it. The oracle of all others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.action import ActionFfn
from rmuscle_ros.cache.context import ContextFfn, ContextTrace
from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.cache.record import RecordFfn, RecordMasks, StopPrefillError
from rmuscle_ros.cache.scores import down_norm
from rmuscle_ros.cache.states import NeuronMasks, PrefixState
from rmuscle_ros.engine.sampler import EulerSampler
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.models.base import Prefix, StepFfn, VlaModel
from rmuscle_ros.types import ACTION, ModelInputs


@dataclass(frozen=True)
class Observed:
    """A call up to the visual key. key: float32 [V * Dv], L2-normalised."""

    inputs: ModelInputs
    prefix: Prefix
    key: np.ndarray
    vision_ms: float


@dataclass(frozen=True)
class CachedPlan:
    """Run with the caches. ``masks`` None leaves the Action Cache off.

    drift_limits: float32 [views], the drift fence; None measures raw drift and never falls back.
    """

    state: PrefixState
    masks: NeuronMasks | None
    rho_p: float
    rho_n: float
    drift_limits: np.ndarray | None = None


@dataclass(frozen=True)
class RecordPlan:
    """Run densely and keep neuron masks for groups of ``group_len`` steps."""

    group_len: int
    score: str


Plan = CachedPlan | RecordPlan | None


@dataclass(frozen=True)
class CallResult:
    """actions: float32 [H, J], joint units; normalised, noise: float32 [H, A]."""

    actions: np.ndarray
    normalised: np.ndarray
    noise: np.ndarray
    prefill_ms: float
    denoise_ms: float
    context: ContextTrace | None = None
    action_ffn: ActionFfn | None = None
    masks: NeuronMasks | None = None


class EagerEngine:
    """One model on one device. Calls and ``expand`` may run in different threads, not at once."""

    name = 'eager'

    def __init__(
        self, model: VlaModel, device: torch.device, dtype: torch.dtype, denoise_steps: int
    ) -> None:
        self.model = model.to(device)
        # Parameters only: buffers are statistics in joint units, which bfloat16 would round to
        # hundredths of a radian.
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(dtype)
        self.device, self.dtype = device, dtype
        self.sampler = EulerSampler(denoise_steps)
        self._modules = self.model.ffn_modules()
        self._action_modules = {
            site: mlp for site, mlp in self._modules.items() if site.stack == ACTION
        }
        self._down_norm = {site: down_norm(mlp) for site, mlp in self._action_modules.items()}
        self._dense = DenseFfn(self._modules)
        with torch.inference_mode():
            self.conditions = self.model.step_conditions(self.sampler.times().to(device))

    @torch.inference_mode()
    def observe(self, inputs: ModelInputs) -> Observed:
        """Vision tower, visual key and embedding."""
        start = time.perf_counter()
        features = self.model.vision(self._images(inputs), self._dense)
        key = visual_key(features)
        prefix = self.model.embed(features, inputs)
        return Observed(inputs, prefix, key, _ms_since(start))

    @torch.inference_mode()
    def run(
        self, observed: Observed, plan: Plan = None, noise: np.ndarray | None = None
    ) -> CallResult:
        """Prefill and denoise. noise: float32 [H, A]; fresh Gaussian noise when None."""
        noise = self.draw_noise() if noise is None else self._checked(noise)
        start = time.perf_counter()
        context = self._context_runner(observed, plan)
        cache = self.model.prefill(observed.prefix, context or self._dense)
        prefill_ms = _ms_since(start)
        start = time.perf_counter()
        ffn = self._action_runner(plan, context)
        x = torch.from_numpy(noise)[None].to(self.device)
        model, conditions, dtype = self.model, self.conditions, self.dtype
        x = self.sampler(
            x, lambda a, step: model.denoise(cache, a.to(dtype), conditions, step, ffn), ffn
        )
        actions = model.unnormalise(x, observed.inputs).cpu().numpy()
        return CallResult(
            actions=actions,
            normalised=x[0].cpu().numpy(),
            noise=noise,
            prefill_ms=prefill_ms,
            denoise_ms=_ms_since(start),
            context=context.trace if context else None,
            action_ffn=ffn if isinstance(ffn, ActionFfn) else None,
            masks=ffn.masks if isinstance(ffn, RecordMasks) else None,
        )

    def _checked(self, noise: np.ndarray) -> np.ndarray:
        expected = (self.model.horizon, self.model.action_width)
        if np.shape(noise) != expected:
            raise ConfigError(
                f'noise: found {np.shape(noise)}, expected {expected} (horizon, actions)'
            )
        return np.asarray(noise, np.float32)

    def draw_noise(self) -> np.ndarray:
        """Standard normal float32 [H, A] from torch's global generator."""
        return torch.randn(self.model.horizon, self.model.action_width).numpy()

    def expand(
        self, inputs: ModelInputs, before_site: Callable[[], None] = lambda: None
    ) -> PrefixState:
        """Dense prefill that keeps every prefix site's input and output of the visual rows.

        ``before_site`` runs ahead of every FFN, those of the vision tower included.
        """
        return self._record(inputs, before_site, first_site_only=False).state

    def first_site_input(
        self, inputs: ModelInputs, before_site: Callable[[], None] = lambda: None
    ) -> Tensor:
        """The visual rows' input at the first prefix site, [V, D]; the rest is not computed."""
        record = self._record(inputs, before_site, first_site_only=True)
        return next(iter(record.x.values()))

    @torch.inference_mode()
    def _record(
        self, inputs: ModelInputs, before_site: Callable[[], None], first_site_only: bool
    ) -> RecordFfn:
        record = RecordFfn(self._modules, before_site=before_site, first_site_only=first_site_only)
        features = self.model.vision(self._images(inputs), record)
        prefix = self.model.embed(features, inputs)
        record.visual = prefix.visual
        with contextlib.suppress(StopPrefillError):
            self.model.prefill(prefix, record)
        return record

    def _context_runner(self, observed: Observed, plan: Plan) -> ContextFfn | None:
        if not isinstance(plan, CachedPlan):
            return None
        prefix, inputs = observed.prefix, observed.inputs
        fence = plan.drift_limits is not None
        limits = plan.drift_limits if fence else np.ones(len(inputs.cameras), np.float32)
        return ContextFfn(
            self._modules,
            plan.state,
            prefix.visual,
            prefix.text,
            plan.rho_p,
            torch.as_tensor(limits, dtype=torch.float32, device=self.device),
            fence,
        )

    def _action_runner(self, plan: Plan, context: ContextFfn | None) -> StepFfn:
        if isinstance(plan, RecordPlan):
            return RecordMasks(
                self._action_modules,
                self._down_norm,
                plan.group_len,
                self.sampler.steps,
                plan.score,
            )
        tripped = context is not None and context.trace.tripped
        if isinstance(plan, CachedPlan) and plan.masks is not None and not tripped:
            return ActionFfn(self._action_modules, plan.masks, plan.rho_n)
        return self._dense

    def _images(self, inputs: ModelInputs) -> Tensor:
        return torch.from_numpy(inputs.images).to(self.device)


def visual_key(features: Tensor) -> np.ndarray:
    """Tower output [V, N, Dv] -> float32 [V * Dv]: mean per view, concatenated, L2 norm 1."""
    pooled = features.float().mean(dim=1).flatten()
    return (pooled / pooled.norm().clamp_min(1e-12)).cpu().numpy()


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
