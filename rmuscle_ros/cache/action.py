"""Action Cache: anchors are dense, the steps between them compute the masked neurons only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.kernels.sparse_ffn import sparse_ffn
from rmuscle_ros.nn.mlp import Mlp, NeuronSlice
from rmuscle_ros.types import Site


@dataclass
class _Anchor:
    """The last anchor at one site: masked hidden activations [R, K] and output [R, D]."""

    h: Tensor
    y: Tensor
    weights: NeuronSlice


class ActionFfn:
    """``y = y_a + (h_M - h_a,M) W_down[M]`` between anchors; an anchor every ``group_len`` steps.

    The mask's weights are gathered once per group and site, at the anchor.
    """

    def __init__(self, modules: Mapping[Site, Mlp], masks: NeuronMasks, rho_n: float) -> None:
        self._modules = modules
        self._masks = masks
        self._rho_n = rho_n
        self._anchors: dict[Site, _Anchor] = {}
        self._step = 0
        self.anchor_calls = 0
        self.masked_calls = 0

    def begin_step(self, step: int) -> None:
        if step >= self._masks.steps:
            raise ConfigError(
                f'denoise step {step}: the masks were recorded with {self._masks.steps} steps; '
                'record the library again with the number of steps in use'
            )
        self._step = step

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """x [1, R, D] -> y [1, R, D]."""
        group, position = divmod(self._step, self._masks.group_len)
        if position == 0:
            return self._anchor(site, x, group)
        self.masked_calls += 1
        anchor = self._anchors[site]
        h = self._modules[site].hidden_of(x[0], anchor.weights)
        return sparse_ffn(h, anchor.h, anchor.y, anchor.weights.down).unsqueeze(0)

    def _anchor(self, site: Site, x: Tensor, group: int) -> Tensor:
        self.anchor_calls += 1
        mlp = self._modules[site]
        h = mlp.hidden(x)
        y = mlp.project(h)
        if self._step + 1 < self._masks.steps and self._masks.group_len > 1:
            neurons = self._masks.neurons(group, site, self._rho_n).to(x.device)
            masked = torch.index_select(h[0], 1, neurons)
            self._anchors[site] = _Anchor(masked, y[0], mlp.select(neurons))
        return y
