"""Dense runners that keep what a reference needs: prefix states, neuron masks, step states."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import torch
from torch import Tensor

from rmuscle_ros.cache.scores import neuron_score
from rmuscle_ros.cache.states import ExpandedState, NeuronMasks, StepStates
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import PREFIX, Site


class StopPrefillError(Exception):
    """Raised by RecordFfn once it has what it was asked for; never leaves the engine."""


class RecordFfn:
    """Dense; keeps inputs and outputs of the visual rows at prefix sites.

    first_site_only: raise StopPrefillError once the first prefix site's input is known.
    """

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        visual: Tensor | None = None,
        first_site_only: bool = False,
    ) -> None:
        self._modules = modules
        self._first_site_only = first_site_only
        self.visual = visual
        self.x: dict[Site, Tensor] = {}
        self.y: dict[Site, Tensor] = {}

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        if site.stack != PREFIX or self.visual is None:
            return self._modules[site](x)
        self.x[site] = x[0].index_select(0, self.visual)
        if self._first_site_only:
            raise StopPrefillError
        y = self._modules[site](x)
        self.y[site] = y[0].index_select(0, self.visual)
        return y

    def state(self, steps: StepStates | None = None) -> ExpandedState:
        return ExpandedState(self.x, self.y, steps)


class RecordMasks:
    """Dense; scores every action neuron over the steps between anchors."""

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        down_norm: Mapping[Site, Tensor],
        anchors: tuple[int, ...],
        steps: int,
        score: str,
    ) -> None:
        """down_norm: ``scores.down_norm`` of every module."""
        self._modules = modules
        self._down_norm = down_norm
        self._anchors, self._steps, self._score = anchors, steps, score
        self._step = 0
        self._sites: list[Site] = []
        self._h_anchor: dict[Site, Tensor] = {}
        self._scores: dict[tuple[int, Site], Tensor] = {}

    def begin_step(self, step: int) -> None:
        self._step = step

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        mlp = self._modules[site]
        h = mlp.hidden(x)
        group = bisect_right(self._anchors, self._step) - 1
        if self._step == 0:
            self._sites.append(site)
        if self._step == self._anchors[group]:
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
        groups = len(self._anchors)
        sites = tuple(self._sites)
        scores = torch.stack(
            [torch.stack([self._scores[g, site] for site in sites]) for g in range(groups)]
        )
        return NeuronMasks.from_scores(scores, sites, self._anchors, self._steps, self._score)


class RecordSteps:
    """Dense; keeps what every action FFN did in every step."""

    def __init__(self, modules: Mapping[Site, Mlp]) -> None:
        self._modules = modules
        self._h: dict[Site, list[Tensor]] = {}
        self._y: dict[Site, list[Tensor]] = {}

    def begin_step(self, step: int) -> None:
        """Steps come in their order."""

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        mlp = self._modules[site]
        h = mlp.hidden(x)
        y = mlp.project(h)
        self._h.setdefault(site, []).append(h[0])
        self._y.setdefault(site, []).append(y[0])
        return y

    @property
    def states(self) -> StepStates:
        return StepStates(
            {site: torch.stack(h) for site, h in self._h.items()},
            {site: torch.stack(y) for site, y in self._y.items()},
        )
