"""The arithmetic of one dense call, and the most that caching its FFNs can give.

FFN: 2 FLOP per row and weight. Everything else is counted from the operations that run (matrix
products, convolutions, attention); norms, activations and softmax count nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rmuscle_ros.cache.scores import effective_rho
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import ACTION, PREFIX, VISION, ModelInputs, Site

STAGES = {VISION: 'vision', PREFIX: 'prefill', ACTION: 'denoise'}
BYTES_PER_VALUE = 2


class CountRows:
    """Dense; counts the rows of every site. A ``StepFfn``."""

    def __init__(self, modules: Mapping[Site, Mlp]) -> None:
        self._modules = modules
        self.rows: Counter[Site] = Counter()

    def begin_step(self, step: int) -> None:
        """Every step runs alike."""

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        self.rows[site] += x.shape[:-1].numel()
        return self._modules[site](x)


def weights(mlp: Mlp) -> int:
    """Number of weights of one FFN that a row is multiplied with (no biases)."""
    return sum(p.numel() for p in mlp.parameters() if p.ndim > 1)


def intensity(mlp: Mlp, rows: int) -> float:
    """FLOP per byte of one FFN, 16 bits per value: weights, inputs and outputs moved once.

    The hidden activations are taken to stay on the chip.
    """
    moved = weights(mlp) + 2 * rows * mlp.width
    return 2 * rows * weights(mlp) / (BYTES_PER_VALUE * moved)


def count(
    engine: EagerEngine, inputs: ModelInputs, rho_p: float, rho_n: float, group_len: int
) -> dict[str, Any]:
    """FLOPs of a dense call by stage, and what the two caches leave of them.

    rho_p, rho_n, group_len: the setting for which the ideal speedups are given. They are ratios of
    FLOPs: gathering, ranking and everything but arithmetic is free.
    """
    modules = engine.model.ffn_modules()
    rows, total, visual = _run(engine, inputs, modules)
    steps = engine.sampler.steps
    ffn = dict.fromkeys(STAGES.values(), 0)
    for site, mlp in modules.items():
        ffn[STAGES[site.stack]] += 2 * rows[site] * weights(mlp)
    prefix = next(site for site in modules if site.stack == PREFIX)
    action = next(site for site in modules if site.stack == ACTION)
    copied = visual - math.ceil(rho_p * visual - 1e-9)
    followers = steps - math.ceil(steps / group_len)
    saved = {
        'prefill': ffn['prefill'] * copied / rows[prefix],
        'denoise': ffn['denoise'] * followers * (1 - effective_rho(rho_n)) / steps,
    }
    call = sum(total.values())
    ideal = {
        'context_cache': call / (call - saved['prefill']),
        'action_cache': call / (call - saved['denoise']),
        'both': call / (call - sum(saved.values())),
        'cached_ffns_free': call / (call - ffn['prefill'] - ffn['denoise']),
    }
    # Steps that cost what the Action Cache leaves: the plain alternative to it.
    same_work = steps - followers * (1 - effective_rho(rho_n))
    ideal['fewer_steps'] = call / (call - total['denoise'] * (1 - same_work / steps))
    return {
        'stages': {
            stage: {
                'flop': total[stage],
                'ffn_flop': ffn[stage],
                'saved_flop': round(saved.get(stage, 0)),
            }
            for stage in STAGES.values()
        },
        'rows': {'visual': visual, 'prefix': rows[prefix], 'action': rows[action] // steps},
        'flop_per_byte': {
            'prefill': intensity(modules[prefix], rows[prefix]),
            'denoise': intensity(modules[action], rows[action] // steps),
        },
        'ideal_speedup': ideal,
        'steps_of_same_ffn_work': same_work,
    }


@torch.no_grad()
def _run(
    engine: EagerEngine, inputs: ModelInputs, modules: Mapping[Site, Mlp]
) -> tuple[Counter[Site], dict[str, int], int]:
    """One dense call -> rows per site (all steps), FLOPs by stage, number of visual rows."""
    model, ffn = engine.model, CountRows(modules)
    total = dict.fromkeys(STAGES.values(), 0)

    def counted(stage: str, part: Callable[[], Any]) -> Any:
        # The counter knows attention only as the matrix products it is made of.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            result = part()
        total[stage] += counter.get_total_flops()
        return result

    images = torch.from_numpy(inputs.images).to(engine.device)
    features = counted('vision', lambda: model.vision(images, ffn))
    prefix = counted('vision', lambda: model.embed(features, inputs))
    cache = counted('prefill', lambda: model.prefill(prefix, ffn))
    noise = np.zeros((1, model.horizon, model.action_width), np.float32)
    counted(
        'denoise',
        lambda: engine.sampler(
            torch.from_numpy(noise).to(engine.device),
            lambda a, step: model.denoise(cache, a.to(engine.dtype), engine.conditions, step, ffn),
            ffn,
        ),
    )
    return ffn.rows, total, len(prefix.visual)
