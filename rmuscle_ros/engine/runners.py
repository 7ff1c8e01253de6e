"""From a plan to the FFN runners and the sampler that carry it out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.action import ActionFfn
from rmuscle_ros.cache.context import ContextFfn
from rmuscle_ros.cache.record import RecordMasks
from rmuscle_ros.cache.states import check_anchors
from rmuscle_ros.engine.plans import CachedPlan, Observed, RecordPlan
from rmuscle_ros.engine.sampler import Sampler, SkipSampler
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import Site


def context_runner(
    modules: Mapping[Site, Mlp], observed: Observed, plan: CachedPlan, device: torch.device
) -> ContextFfn:
    """The Context Cache of one prefill."""
    prefix = observed.prefix
    fence = plan.drift_limits is not None
    limits = plan.drift_limits if fence else np.ones(len(observed.inputs.cameras), np.float32)
    return ContextFfn(
        modules,
        plan.states,
        prefix.visual,
        prefix.text,
        plan.rho_p,
        torch.as_tensor(limits, dtype=torch.float32, device=device),
        fence,
        plan.guard,
    )


def action_runner(
    modules: Mapping[Site, Mlp],
    down_norm: Mapping[Site, Tensor],
    plan: CachedPlan | RecordPlan,
    steps: int,
) -> ActionFfn | RecordMasks | None:
    """The runner of the denoise steps; None where every step that is run is dense."""
    if isinstance(plan, RecordPlan):
        check_anchors(plan.anchors, steps)
        return RecordMasks(modules, down_norm, plan.anchors, steps, plan.score)
    if plan.action is None or plan.action.skips:
        return None
    check_anchors(plan.action.anchors, steps)
    return ActionFfn(modules, plan.action, down_norm, steps)


def skip_sampler(plan: CachedPlan, steps: int) -> Sampler | None:
    """The sampler that leaves out the steps between anchors; None where they are run."""
    action = plan.action
    if action is None or not action.skips:
        return None
    reference = action.velocity if action.unselected == 'reference' else None
    return SkipSampler(steps, action.anchors, action.unselected, reference)
