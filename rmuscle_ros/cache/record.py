"""Dense runners that keep what a reference needs: prefix states, or neuron masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rmuscle_ros.cache.scores import neuron_score
from rmuscle_ros.cache.states import NeuronMasks, PrefixState
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import PREFIX, Site


class StopPrefillError(Exception):
    """Raised by RecordFfn once it has what it was asked for; never leaves the engine."""


class RecordFfn:
    """Dense; keeps inputs and outputs of the visual rows at prefix sites.

    before_site: called ahead of every FFN of any stack; the rebuild thread yields there.
    first_site_only: raise StopPrefillError once the first prefix site's input is known.
    """

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        visual: Tensor | None = None,
        before_site: Callable[[], None] = lambda: None,
        first_site_only: bool = False,
    ) -> None:
        self._modules = modules
        self._before_site = before_site
        self._first_site_only = first_site_only
        self.visual = visual
        self.x: dict[Site, Tensor] = {}
        self.y: dict[Site, Tensor] = {}

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        self._before_site()
        if site.stack != PREFIX or self.visual is None:
            return self._modules[site](x)
        self.x[site] = x[0].index_select(0, self.visual)
        if self._first_site_only:
            raise StopPrefillError
        y = self._modules[site](x)
        self.y[site] = y[0].index_select(0, self.visual)
        return y

    @property
    def state(self) -> PrefixState:
        return PrefixState(self.x, self.y)


class RecordMasks:
    """Dense; scores every action neuron over the non-anchor steps of each group."""

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        down_norm: Mapping[Site, Tensor],
        group_len: int,
        steps: int,
        score: str,
    ) -> None:
        """down_norm: ``scores.down_norm`` of every module."""
        self._modules = modules
        self._down_norm = down_norm
        self._group_len, self._steps, self._score = group_len, steps, score
        self._step = 0
        self._sites: list[Site] = []
        self._h_anchor: dict[Site, Tensor] = {}
        self._scores: dict[tuple[int, Site], Tensor] = {}

    def begin_step(self, step: int) -> None:
        self._step = step

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        mlp = self._modules[site]
        h = mlp.hidden(x)
        group, position = divmod(self._step, self._group_len)
        if self._step == 0:
            self._sites.append(site)
        if position == 0:
            self._h_anchor[site] = h[0]
            self._scores[group, site] = torch.zeros(h.shape[-1], device=x.device)
        else:
            self._scores[group, site] += neuron_score(
                h[0], self._h_anchor[site], self._down_norm[site], self._score
            )
        return mlp.project(h)

    @property
    def masks(self) -> NeuronMasks:
        """The rank levels of all groups; a group of one step has no followers and ranks by 0."""
        groups = -(-self._steps // self._group_len)
        sites = tuple(self._sites)
        scores = torch.stack(
            [torch.stack([self._scores[g, site] for site in sites]) for g in range(groups)]
        )
        return NeuronMasks.from_scores(scores, sites, self._group_len, self._steps)
