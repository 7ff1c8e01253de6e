"""Importance of FFN neurons and its compact form, rank levels of 4 bits.

Two candidate scores, both summed over the rows and the non-anchor steps of a group and weighted
by the norm of the neuron's down-projection row:

contribution    sum |h_n| * ||W_down[n]||, the paper's
delta           sum |h_n - h_anchor,n| * ||W_down[n]||, the term a mask really omits
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rmuscle_ros.nn.mlp import Mlp

LEVELS = 16


def down_norm(mlp: Mlp) -> Tensor:
    """||W_down[n, :]|| of every neuron, [F], fp32."""
    return mlp.down_proj.float().norm(dim=-1)


def neuron_score(h: Tensor, h_anchor: Tensor, down_norm: Tensor, score: str) -> Tensor:
    """h, h_anchor [R, F], down_norm [F] -> [F], fp32."""
    term = h if score == 'contribution' else h - h_anchor
    return term.abs().float().sum(0) * down_norm


def sixteenths(rho: float) -> int:
    """The number of rank levels a mask of ``rho`` takes: rho rounded up to k/16."""
    return min(LEVELS, math.ceil(rho * LEVELS - 1e-9))


def effective_rho(rho: float) -> float:
    """The rho_n really in force: the next sixteenth at or above ``rho``."""
    return sixteenths(rho) / LEVELS


def levels_of(scores: Tensor) -> Tensor:
    """scores [..., F] -> uint8 levels; the ``ceil(k/16 * F)`` best have a level below k.

    Ties go to the lower neuron number.
    """
    width = scores.shape[-1]
    bounds = torch.tensor([math.ceil(k * width / LEVELS) for k in range(1, LEVELS)])
    level_of_rank = torch.searchsorted(bounds, torch.arange(width), right=True).to(torch.uint8)
    order = torch.argsort(scores, dim=-1, descending=True, stable=True)
    levels = torch.empty(scores.shape, dtype=torch.uint8, device=scores.device)
    source = level_of_rank.to(scores.device).expand(scores.shape).contiguous()
    return levels.scatter_(-1, order, source)
