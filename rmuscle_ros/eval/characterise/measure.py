"""The measures of the paper's observations, as functions of recorded tensors.

None of them knows models or episodes; shapes are in each docstring.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rmuscle_ros.cache.scores import LEVELS, sixteenths
from rmuscle_ros.errors import RecordError

# Abscissa of the row curves: the top k % of the rows, k = 0 ... 100.
PERCENT = tuple(range(101))


def output_change(y: Tensor, y_ref: Tensor) -> dict[str, Tensor]:
    """How much each row's FFN output changed: y, y_ref [V, D] -> two measures, [V] fp32.

    ``norm`` is ||y - y_ref||, ``square`` its square (the energy of the change).
    """
    norm = (y.float() - y_ref.float()).norm(dim=-1)
    return {'norm': norm, 'square': norm.square()}


def share_in_top(change: Tensor, rank_by: Tensor) -> Tensor:
    """Share of ``change`` [V] in the ``ceil(k/100 · V)`` rows of largest ``rank_by`` [V].

    -> [101], fp64, for k = 0 ... 100 %; ties as in ``kernels.token_drift.select_rows``.
    Raises RecordError where nothing changed, because then no share exists.
    """
    total = change.sum(dtype=torch.float64)
    if not total > 0:
        raise RecordError(
            'found FFN outputs equal to those of the reference in every row, expected a change; '
            'test and reference show the same scene: choose other scenes'
        )
    order = torch.argsort(rank_by, descending=True, stable=True)
    held = torch.cat((torch.zeros(1, dtype=torch.float64), change[order].double().cumsum(0)))
    counts = [math.ceil(k * len(change) / 100) for k in PERCENT]
    return held[torch.tensor(counts)] / total


def kept(score: Tensor, levels: Tensor) -> Tensor:
    """Share of ``score`` that masks of every rho_n keep.

    score: [..., F]. levels: uint8 [..., F], rank levels of whatever chose the mask.
    -> [..., 17], fp64, for rho_n = 0, 1/16, ... 1. Raises RecordError where all scores are 0.
    """
    sums = torch.zeros((*score.shape[:-1], LEVELS), dtype=torch.float64)
    sums.scatter_add_(-1, levels.long(), score.double())
    held = torch.nn.functional.pad(sums.cumsum(-1), (1, 0))
    total = held[..., -1:]
    if not (total > 0).all():
        raise RecordError(
            'found no neuron with a score, expected hidden activations that change between '
            'denoise steps; the weights of the action FFNs are zero or damaged'
        )
    return held / total


def overlap(a: Tensor, b: Tensor, rho_n: float) -> Tensor:
    """Share of the mask of ``a`` that the mask of ``b`` holds too, for every pair.

    a: uint8 [N, G, S, F] and b: uint8 [M, G, S, F], rank levels of groups and sites.
    -> [N, M, G, S], fp32. Two random masks share rho_n of their neurons.
    """
    mask_a, mask_b = ((levels < sixteenths(rho_n)).float() for levels in (a, b))
    return torch.einsum('ngsf,mgsf->nmgs', mask_a, mask_b) / mask_a[0, 0, 0].sum()
