"""The observations on the caches, from recorded calls to curves and numbers for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.scores import LEVELS, effective_rho, levels_of
from rmuscle_ros.eval.characterise import measure
from rmuscle_ros.eval.characterise.record import ANCHOR, SCORES, Activity, Call
from rmuscle_ros.kernels.token_drift import token_drift
from rmuscle_ros.statistics import median, quantile
from rmuscle_ros.types import Site

DIGITS = 6


@dataclass(frozen=True)
class Data:
    """Test calls and what they are compared with; the first lists have one item per test call.

    calls: of the policy's own dense episodes. matches: each one's best match among the references.
    other_phase: its best match in another phase, None without any. other_noise: the same call
        under another noise. other_match: its best match among the calls of the other task.
    references, other_task: all calls of these episodes.
    """

    calls: list[Call]
    matches: list[Call]
    other_phase: list[Call | None]
    other_noise: list[Activity]
    other_match: list[Call]
    references: list[Call]
    other_task: list[Call]


def context(data: Data, rho_p: float) -> dict[str, Any]:
    """Where the change of the prefix FFNs' outputs sits, against the matched reference.

    curves: measure of the change -> what ranks the rows (``drift`` of the input, or the ``change``
    itself, the best any ranking could do) -> share held by the top k % of the rows.
    """
    sites = list(data.calls[0].activity.x)
    pairs = list(zip(data.calls, data.matches, strict=True))
    result: dict[str, Any] = {'percent': list(measure.PERCENT), 'curves': {}, 'at_rho_p': {}}
    for name in ('norm', 'square'):
        shares = {
            order: torch.stack([_shares(call, match, name, order) for call, match in pairs])
            for order in ('drift', 'change')
        }
        result['curves'][name] = {order: _curve(v, sites) for order, v in shares.items()}
        at = round(100 * rho_p)
        result['at_rho_p'][name] = {o: summary(v[..., at], sites) for o, v in shares.items()}
    apart = [(c, m) for c, m in zip(data.calls, data.other_phase, strict=True) if m is not None]
    result['relative_change'] = {
        kind: _relative_change(chosen, sites)
        for kind, chosen in (('match', pairs), ('other_phase', apart))
    }
    return result


def _shares(call: Call, match: Call, name: str, order: str) -> Tensor:
    """[sites, 101] of one call and its reference."""
    a, b = call.activity, match.activity
    rows = []
    for site, x in a.x.items():
        change = measure.output_change(a.y[site], b.y[site])[name]
        rank_by = change if order == 'change' else token_drift(x, b.x[site])
        rows.append(measure.share_in_top(change, rank_by))
    return torch.stack(rows)


def _relative_change(
    pairs: Sequence[tuple[Call, Call]], sites: Sequence[Site]
) -> dict[str, Any] | None:
    """||change|| / ||values|| of all visual rows, FFN inputs and outputs; None without pairs."""
    if not pairs:
        return None
    ratios: dict[str, list[Tensor]] = {'input': [], 'output': []}
    for call, match in pairs:
        new, old = call.activity, match.activity
        for name, a, b in (('input', new.x, old.x), ('output', new.y, old.y)):
            change = [(a[site] - b[site]).norm() / a[site].norm() for site in sites]
            ratios[name].append(torch.stack(change))
    return {name: summary(torch.stack(values), sites) for name, values in ratios.items()}


def action(data: Data, rho_n: float) -> dict[str, Any]:
    """Share of each score that a mask keeps, by rho_n and by where the mask comes from.

    curves: score -> source -> share. Sources: ``oracle`` (the call's own score), ``reference``
    (the match's, same score), ``anchor`` (the call's own anchor step, no reference) and, for
    delta, ``reference_contribution`` (the match's contribution: what the paper's mask keeps of the
    term that a mask really omits).
    """
    sites = data.calls[0].activity.sites
    result: dict[str, Any] = {
        'rho_n': [k / LEVELS for k in range(LEVELS + 1)],
        'curves': {},
        'at_rho_n': {},
    }
    pairs = [
        (c.activity.scores, m.activity.scores)
        for c, m in zip(data.calls, data.matches, strict=True)
    ]
    for score in SCORES:
        ranks = {
            'oracle': [own[score] for own, _ in pairs],
            'reference': [match[score] for _, match in pairs],
            'anchor': [own[ANCHOR] for own, _ in pairs],
        }
        if score == 'delta':
            ranks['reference_contribution'] = [match['contribution'] for _, match in pairs]
        own = torch.stack([scores[score] for scores, _ in pairs])
        # [calls, groups, sites, 17] -> the mean over groups
        shares = {
            source: measure.kept(own, levels_of(torch.stack(by))).mean(1)
            for source, by in ranks.items()
        }
        at = round(effective_rho(rho_n) * LEVELS)
        result['curves'][score] = {source: _curve(v, sites) for source, v in shares.items()}
        result['at_rho_n'][score] = {s: summary(v[..., at], sites) for s, v in shares.items()}
    return result


def overlap(data: Data, rho_n: float) -> dict[str, Any]:
    """Share of its most important neurons that a test call has in common with other calls.

    kinds: whom it is compared with -> score -> summary over pairs; groups and sites are compared
    each with its own. chance: what two random masks share. None where there is no such pair.
    """
    sites = data.calls[0].activity.sites
    episode = np.array([call.entry.episode_id for call in data.calls])
    each = np.eye(len(data.calls), dtype=bool)
    chosen: dict[str, tuple[Sequence[Activity], np.ndarray | None]] = {
        'other_noise': (data.other_noise, each),
        'match': (_activities(data.matches), each),
        'same_task': (_activities(data.references), None),
        'same_episode': (_activities(data.calls), (episode[:, None] == episode) & ~each),
        'other_task_match': (_activities(data.other_match), each),
        'other_task': (_activities(data.other_task), None),
    }
    kinds: dict[str, dict[str, Any]] = {kind: {} for kind in chosen}
    for score in SCORES:
        own = _levels(_activities(data.calls), score)
        for kind, (others, pairs) in chosen.items():
            shares = measure.overlap(own, _levels(others, score), rho_n).mean(2)
            picked = shares.flatten(0, 1) if pairs is None else shares[torch.from_numpy(pairs)]
            kinds[kind][score] = summary(picked, sites) if len(picked) else None
    return {'chance': effective_rho(rho_n), 'kinds': kinds}


def _activities(calls: Sequence[Call]) -> list[Activity]:
    return [call.activity for call in calls]


def _levels(activities: Sequence[Activity], score: str) -> Tensor:
    """uint8 [calls, groups, sites, F]."""
    return torch.stack([levels_of(activity.scores[score]) for activity in activities])


def summary(values: Tensor, sites: Sequence[Site]) -> dict[str, Any]:
    """values [N, sites], a row per call or pair -> mean, quantiles of the rows, mean per site."""
    rows = values.double().mean(1).tolist()
    return {
        'mean': _rounded(values.double().mean()),
        'p5': quantile(rows, 0.05),
        'p50': median(rows),
        'p95': quantile(rows, 0.95),
        'n': len(rows),
        'layers': dict(zip(map(site_name, sites), _rounded(values.double().mean(0)), strict=True)),
    }


def _curve(values: Tensor, sites: Sequence[Site]) -> dict[str, Any]:
    """values [calls, sites, points] -> the mean curve and one per site."""
    layers = _rounded(values.double().mean(0))
    return {
        'mean': _rounded(values.double().mean((0, 1))),
        'layers': dict(zip(map(site_name, sites), layers, strict=True)),
    }


def _rounded(values: Tensor) -> Any:
    """Plain numbers of ``DIGITS`` decimals, nested as the tensor is."""
    return np.round(values.numpy(), DIGITS).tolist()


def site_name(site: Site) -> str:
    return f'{site.stack} {site.layer}'
