"""From a match in memory and the settings to the plan of a call, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.cache.states import check_anchors
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.engine.plans import CachedPlan, CallResult
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.memory.entry import Entry
from rmuscle_ros.memory.memory import Match
from rmuscle_ros.types import Reason


@dataclass(frozen=True)
class Planned:
    """A plan, and why the Action Cache is off in it ('' while it is on)."""

    plan: CachedPlan
    action_off: str = ''


def check_settings(cache: CacheConfig, steps: int) -> None:
    """Raise ConfigError for settings that no call could be planned with."""
    check_anchors(cache.anchors, steps)
    if cache.unselected == 'reference' and cache.noise != 'shared':
        raise ConfigError(
            "cache.unselected: found reference with cache.noise fresh; the reference's changes "
            'are right only under its own noise: set cache.noise to shared, or unselected to '
            'extrapolate'
        )


def plan_call(match: Match, cache: CacheConfig, steps: int) -> Planned | None:
    """The plan of a call; None for one that is dense throughout. steps: of a dense call."""
    keep = cache.without_reference == 'anchors'
    if match.entry is None:
        if match.reason is Reason.CACHE_DISABLED or not keep or needs_reference(cache):
            return None
        return Planned(CachedPlan((), 1.0, _action(cache)))
    off = why_action_off(match.entry, cache, steps)
    action = None if off else _action(cache, match)
    limits, guard = match.drift_limits, match.guard
    noise = match.entry.noise if cache.noise == 'shared' else None
    plan = CachedPlan(match.states, cache.rho_p, action, limits, guard, keep, noise)
    return Planned(plan, off)


def outcome(match: Match, planned: Planned, result: CallResult) -> tuple[Reason, str]:
    """A planned call's reason: fence and guard are known only once the prefill has begun."""
    context = result.context
    if context is not None and context.tripped:
        return Reason.FALLBACK_DRIFT, f'drift is {context.drift:.2f} of the limit'
    if context is not None and not context.reused and planned.plan.guard is not None:
        budget = planned.plan.guard.budget
        return Reason.OVER_BUDGET, f'estimated error {context.estimate:.3f}, budget {budget:g}'
    return match.reason, planned.action_off or match.detail


def needs_masks(cache: CacheConfig) -> bool:
    """Whether the Action Cache takes recorded neuron masks."""
    return cache.rho_n > 0 and cache.mask_source != 'anchor'


def needs_reference(cache: CacheConfig) -> bool:
    """Whether the Action Cache takes anything of a reference."""
    return needs_masks(cache) or cache.unselected == 'reference'


def needs_step_states(cache: CacheConfig) -> bool:
    """Whether expanding an entry includes its denoise steps; rho_n may be tuned up from 0."""
    return cache.unselected == 'reference'


def why_action_off(entry: Entry, cache: CacheConfig, steps: int) -> str:
    """Why the Action Cache cannot use what was recorded of ``entry``; '' when it can, or takes
    nothing of it."""
    masks = entry.masks
    same_steps = masks.steps == steps
    same_masks = same_steps and (masks.anchors, masks.score) == (cache.anchors, cache.score)
    if (same_masks or not needs_masks(cache)) and (same_steps or not needs_reference(cache)):
        return ''
    return (
        f'Action Cache off: {entry.id} was recorded with anchors {list(masks.anchors)} of '
        f'{masks.steps} steps and score {masks.score}, expected {list(cache.anchors)} of {steps} '
        f'and {cache.score}; refresh the library'
    )


def _action(cache: CacheConfig, match: Match | None = None) -> ActionPlan:
    """The Action Cache of one call; without a match it takes nothing of a reference."""
    entry = match.entry if match else None
    masks = velocity = steps_ref = None
    if match is not None and entry is not None:
        masks = entry.masks if needs_masks(cache) else None
        if cache.unselected == 'reference':
            velocity, steps_ref = torch.from_numpy(entry.velocity).float(), match.states[0].steps
    return ActionPlan(
        anchors=cache.anchors,
        rho_n=cache.rho_n,
        unselected=cache.unselected,
        mask_source=cache.mask_source,
        score=cache.score,
        masks=masks,
        velocity=velocity,
        steps_ref=steps_ref,
    )
