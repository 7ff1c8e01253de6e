"""The eager PyTorch engine: every operation as the model writes it. The oracle of all others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.action import ActionFfn
from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.cache.guard import CopyErrors
from rmuscle_ros.cache.record import RecordFfn, RecordMasks, RecordSteps, StopPrefillError
from rmuscle_ros.cache.scores import down_norm
from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.cache.yielding import YieldingFfn
from rmuscle_ros.engine.plans import CachedPlan, CallResult, Observed, Plan, Recorded
from rmuscle_ros.engine.runners import action_runner, context_runner, skip_sampler
from rmuscle_ros.engine.sampler import EulerSampler, Sampler
from rmuscle_ros.errors import ConfigError, PolicyError
from rmuscle_ros.kernels.token_drift import token_drift
from rmuscle_ros.models.base import RowReuse, StepFfn, VlaModel
from rmuscle_ros.types import ACTION, ModelInputs


def _nothing() -> None:
    """Runs ahead of an FFN where nobody has to be let past."""


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
        self._conditions: dict[tuple[float, ...], Any] = {}
        self.conditions = self.conditions_at(self.sampler)

    @torch.inference_mode()
    def conditions_at(self, sampler: Sampler) -> Any:
        """The model's step conditions at the sampler's flow times; computed once and kept."""
        times = sampler.times()
        if times not in self._conditions:
            on_device = torch.tensor(times, dtype=torch.float32, device=self.device)
            self._conditions[times] = self.model.step_conditions(on_device)
        return self._conditions[times]

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
        self,
        observed: Observed,
        plan: Plan = None,
        noise: np.ndarray | None = None,
        *,
        sampler: Sampler | None = None,
        reuse: RowReuse | None = None,
    ) -> CallResult:
        """Prefill and denoise.

        noise: float32 [H, A], what the sampler starts from; fresh Gaussian noise when None.
        sampler: the engine's own Euler steps when None; reuse: prefix rows whose K/V are given.
        Neither goes with a CachedPlan, which has rules of its own for both.
        """
        if isinstance(plan, CachedPlan) and (reuse is not None or sampler is not None):
            raise ConfigError(
                'run: found a CachedPlan together with a sampler or reused rows, expected one of '
                'them; leave one out'
            )
        noise = self.draw_noise() if noise is None else self._checked(noise)
        start = time.perf_counter()
        context = None
        if isinstance(plan, CachedPlan) and plan.states:
            context = context_runner(self._modules, observed, plan, self.device)
        cache = self.model.prefill(observed.prefix, context or self._dense, reuse)
        prefill_ms = _ms_since(start)
        start = time.perf_counter()
        reused = context is not None and context.trace.reused
        if isinstance(plan, CachedPlan) and not reused:
            plan = plan.without_reference if plan.states else plan
        if isinstance(plan, CachedPlan) and plan.noise is not None:
            noise = self._checked(plan.noise)
        ffn, sampler = self._denoising(plan, sampler)
        velocity: list[Tensor] = []
        x = self._denoise(cache, noise, ffn, sampler, velocity)
        actions = self.model.unnormalise(x, observed.inputs).cpu().numpy()
        recorded = None
        if isinstance(ffn, RecordMasks):
            recorded = Recorded(ffn.masks, torch.stack(velocity).half().cpu().numpy())
        return CallResult(
            actions=actions,
            normalised=x[0].cpu().numpy(),
            noise=noise,
            prefill_ms=prefill_ms,
            denoise_ms=_ms_since(start),
            reused=reused,
            action=plan.action if isinstance(plan, CachedPlan) else None,
            cache=cache,
            context=context.trace if context else None,
            action_ffn=ffn if isinstance(ffn, ActionFfn) else None,
            recorded=recorded,
        )

    def _denoising(self, plan: Plan, sampler: Sampler | None) -> tuple[StepFfn, Sampler]:
        """The FFN runner and the sampler of the denoise steps."""
        sampler = self.sampler if sampler is None else sampler
        if plan is None:
            return self._dense, sampler
        steps = len(sampler.times())
        ffn = action_runner(self._action_modules, self._down_norm, plan, steps)
        if isinstance(plan, CachedPlan):
            sampler = skip_sampler(plan, steps) or sampler
        return ffn or self._dense, sampler

    def _checked(self, noise: np.ndarray) -> np.ndarray:
        expected = (self.model.horizon, self.model.action_width)
        if np.shape(noise) != expected:
            raise ConfigError(
                f'noise: found {np.shape(noise)}, expected {expected} (horizon, actions)'
            )
        values = np.asarray(noise)
        if values.dtype.kind not in 'fiu' or not np.isfinite(values).all():
            raise ConfigError(
                f'noise: found {values.dtype} with values that are not finite numbers, expected '
                'draws from a standard normal distribution'
            )
        return values.astype(np.float32)

    def draw_noise(self) -> np.ndarray:
        """Standard normal float32 [H, A] from torch's global generator."""
        return torch.randn(self.model.horizon, self.model.action_width).numpy()

    def expand(
        self,
        inputs: ModelInputs,
        before_site: Callable[[], None] = _nothing,
        noise: np.ndarray | None = None,
    ) -> ExpandedState:
        """Dense prefill that keeps every prefix site's input and output of the visual rows.

        before_site: runs ahead of every FFN, those of the vision tower included.
        noise: float32 [H, A]: denoise it too and keep what the action FFNs did (``steps``).
        """
        record, cache = self._record(inputs, before_site, first_site_only=False)
        if noise is None:
            return record.state()
        with torch.inference_mode():
            steps = RecordSteps(self._action_modules)
            yielding = YieldingFfn(steps, before_site)
            self._denoise(cache, self._checked(noise), yielding, self.sampler)
            return record.state(steps.states)

    def first_site_input(
        self, inputs: ModelInputs, before_site: Callable[[], None] = _nothing
    ) -> Tensor:
        """The visual rows' input at the first prefix site, [V, D]; the rest is not computed."""
        record, _ = self._record(inputs, before_site, first_site_only=True)
        return next(iter(record.x.values()))

    @torch.inference_mode()
    def dense_actions(
        self,
        inputs: ModelInputs,
        noise: np.ndarray,
        before_site: Callable[[], None] = _nothing,
    ) -> np.ndarray:
        """A whole dense call: noise -> actions, both float32 [H, A], normalised units."""
        dense = YieldingFfn(self._dense, before_site)
        prefix = self.model.embed(self.model.vision(self._images(inputs), dense), inputs)
        return self._actions(self.model.prefill(prefix, dense), noise, dense)

    @torch.inference_mode()
    def copy_errors(
        self,
        inputs: ModelInputs,
        noise: np.ndarray,
        state: ExpandedState,
        shares: Sequence[float],
        before_site: Callable[[], None] = _nothing,
    ) -> CopyErrors:
        """What the Context Cache alone does to a call: its error at each share of rows."""
        dense = YieldingFfn(self._dense, before_site)
        features = self.model.vision(self._images(inputs), dense)
        prefix = self.model.embed(features, inputs)
        observed = Observed(inputs, prefix, visual_key(features), 0.0)
        record = RecordFfn(self._modules, prefix.visual)
        cache = self.model.prefill(prefix, YieldingFfn(record, before_site))
        expected = self._actions(cache, noise, dense)
        first_site = next(iter(state.x))
        row_drift = token_drift(record.x[first_site], state.x[first_site])
        error = {}
        for share in shares:
            plan = CachedPlan((state,), share)
            context = context_runner(self._modules, observed, plan, self.device)
            cache = self.model.prefill(prefix, YieldingFfn(context, before_site))
            actions = self._actions(cache, noise, dense)
            error[share] = float(np.abs(actions - expected).mean())
        return CopyErrors(row_drift, error)

    def _actions(self, cache: Any, noise: np.ndarray, ffn: StepFfn) -> np.ndarray:
        """float32 [H, A], normalised units, of the engine's own sampler."""
        return self._denoise(cache, self._checked(noise), ffn, self.sampler)[0].cpu().numpy()

    def _denoise(
        self,
        cache: Any,
        noise: np.ndarray,
        ffn: StepFfn,
        sampler: Sampler,
        velocity: list[Tensor] | None = None,
    ) -> Tensor:
        """noise float32 [H, A] -> normalised actions [1, H, A].

        velocity: is given every output of the network, [H, A].
        """
        model, conditions, dtype = self.model, self.conditions_at(sampler), self.dtype

        def evaluate(actions: Tensor, step: int) -> Tensor:
            output = model.denoise(cache, actions.to(dtype), conditions, step, ffn)
            if velocity is not None:
                velocity.append(output[0])
            return output

        return sampler(torch.from_numpy(noise)[None].to(self.device), evaluate, ffn)

    @torch.inference_mode()
    def _record(
        self, inputs: ModelInputs, before_site: Callable[[], None], first_site_only: bool
    ) -> tuple[RecordFfn, Any]:
        """The recording runner after a prefill, and what that returned (None when cut short)."""
        record = RecordFfn(self._modules, first_site_only=first_site_only)
        yielding = YieldingFfn(record, before_site)
        prefix = self.model.embed(self.model.vision(self._images(inputs), yielding), inputs)
        record.visual = prefix.visual
        with contextlib.suppress(StopPrefillError):
            return record, self.model.prefill(prefix, yielding)
        return record, None

    def _images(self, inputs: ModelInputs) -> Tensor:
        return torch.from_numpy(inputs.images).to(self.device)


def check_finite(actions: np.ndarray, model: str) -> None:
    """Raise PolicyError unless all joint targets of the policy ``model`` are finite."""
    if not np.isfinite(actions).all():
        raise PolicyError(
            f'{model}: found actions that are not finite, expected joint targets; the weights or '
            'the normalisation of its checkpoint are damaged: copy or train it again'
        )


def visual_key(features: Tensor) -> np.ndarray:
    """Tower output [V, N, Dv] -> float32 [V * Dv]: mean per view, concatenated, L2 norm 1."""
    pooled = features.float().mean(dim=1).flatten()
    return (pooled / pooled.norm().clamp_min(1e-12)).cpu().numpy()


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
