"""Action Cache: anchors are dense, the steps between them compute the masked neurons only.

What the neurons outside the mask do between anchors is a choice of its own:

hold         they keep their anchor's value, the published rule
extrapolate  they go on as they changed from the anchor before
reference    they change as the reference's did since the same anchor (means something only under
             the reference's own noise)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rmuscle_ros.cache.scores import levels_of, neuron_score, sixteenths
from rmuscle_ros.cache.states import NeuronMasks, StepStates, followers
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.kernels.sparse_ffn import sparse_ffn
from rmuscle_ros.nn.mlp import Mlp, NeuronSlice
from rmuscle_ros.types import Site

MASK_SOURCES = ('reference', 'anchor', 'both')
UNSELECTED = ('hold', 'extrapolate', 'reference')
SCORES = ('contribution', 'delta')


@dataclass(frozen=True)
class ActionPlan:
    """How the denoise steps of one call reuse one another and a reference.

    anchors: rising step numbers, the first is 0; these steps are dense.
    rho_n: share of neurons computed in the steps between, rounded up to sixteenths; 0 skips
        these steps altogether and ``unselected`` then says what the velocity does.
    mask_source: whose activity chooses the neurons: the reference's (``masks``), the call's own
        at the anchor, or the sum of both ranks.
    score: how the call's own activity is scored, see ``cache.scores``.
    masks: required unless mask_source is 'anchor' or rho_n is 0.
    velocity: the reference's velocities [steps, H, A], fp32; steps_ref: what its FFNs did. Only
        for unselected 'reference': the first where steps are skipped, the other where not.
    """

    anchors: tuple[int, ...]
    rho_n: float
    unselected: str = 'hold'
    mask_source: str = 'reference'
    score: str = 'contribution'
    masks: NeuronMasks | None = None
    velocity: Tensor | None = None
    steps_ref: StepStates | None = None

    @property
    def skips(self) -> bool:
        """Whether the steps between anchors are not computed at all."""
        return self.rho_n == 0

    @property
    def needs_reference(self) -> bool:
        """Whether anything of a reference is used."""
        return any(part is not None for part in (self.masks, self.velocity, self.steps_ref))


@dataclass
class _Anchor:
    """The last anchor at one site.

    h [R, F], y [R, D]; h_masked [R, K] and the weights of the mask, None when no step follows;
    rate [R, D]: change of y per step that the neurons outside the mask are taken to make.
    """

    step: int
    h: Tensor
    y: Tensor
    neurons: Tensor | None = None
    weights: NeuronSlice | None = None
    h_masked: Tensor | None = None
    rate: Tensor | None = None


class ActionFfn:
    """``y = y_a + (h_M - h_a,M) W_down[M]`` between anchors, plus what ``unselected`` adds.

    The mask's weights are gathered once per group and site, at the anchor.
    """

    def __init__(
        self,
        modules: Mapping[Site, Mlp],
        plan: ActionPlan,
        down_norm: Mapping[Site, Tensor],
        steps: int,
    ) -> None:
        """down_norm: ``scores.down_norm`` of every module; steps: of the whole denoising.

        Raises ConfigError for masks or step states that do not fit the plan.
        """
        _check(plan, steps)
        self._modules, self._plan, self._down_norm = modules, plan, down_norm
        self._steps = steps
        self._anchors: dict[Site, _Anchor] = {}
        self._step = 0
        self.anchor_calls = 0
        self.masked_calls = 0

    def begin_step(self, step: int) -> None:
        self._step = step

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """x [1, R, D] -> y [1, R, D]."""
        if self._step in self._plan.anchors:
            return self._at_anchor(site, x)
        self.masked_calls += 1
        return self._between(site, x[0]).unsqueeze(0)

    def _between(self, site: Site, x: Tensor) -> Tensor:
        anchor = self._anchors[site]
        weights, h_masked = anchor.weights, anchor.h_masked
        if weights is None or h_masked is None or anchor.neurons is None:
            raise RuntimeError(f'step {self._step}: its anchor {anchor.step} gathered no mask')
        h = self._modules[site].hidden_of(x, weights)
        y, since = anchor.y, self._step - anchor.step
        if self._plan.steps_ref is not None:
            ref_h, ref_y = self._plan.steps_ref.h[site], self._plan.steps_ref.y[site]
            y = y + ref_y[self._step] - ref_y[anchor.step]
            change = (ref_h[self._step] - ref_h[anchor.step]).index_select(1, anchor.neurons)
            h_masked = h_masked + change
        elif anchor.rate is not None:
            y = torch.add(y, anchor.rate, alpha=since)
        return sparse_ffn(h, h_masked, y, weights.down)

    def _at_anchor(self, site: Site, x: Tensor) -> Tensor:
        self.anchor_calls += 1
        mlp, before = self._modules[site], self._anchors.get(site)
        h = mlp.hidden(x)
        y = mlp.project(h)
        anchor = _Anchor(self._step, h[0], y[0])
        group = self._plan.anchors.index(self._step)
        if followers(self._plan.anchors, group, self._steps):
            neurons = self._mask(group, site, h[0], before).to(x.device)
            weights = mlp.select(neurons)
            anchor.neurons, anchor.weights = neurons, weights
            anchor.h_masked = h[0].index_select(1, neurons)
            if self._plan.unselected == 'extrapolate' and before is not None:
                masked = anchor.h_masked - before.h.index_select(1, neurons)
                change = anchor.y - before.y - masked @ weights.down
                anchor.rate = change / (anchor.step - before.step)
        self._anchors[site] = anchor
        return y

    def _mask(self, group: int, site: Site, h: Tensor, before: _Anchor | None) -> Tensor:
        """The neurons to compute up to the next anchor, int64 [K], ascending."""
        plan = self._plan
        if plan.mask_source == 'reference':
            return self._reference_masks().neurons(group, site, plan.rho_n)
        score = self._own_score(site, h, before)
        if plan.mask_source == 'both':
            reference = torch.from_numpy(self._reference_masks().of(group, site)).to(h.device)
            # Levels are ranks from above, so the smallest sum is the most important; the call's
            # own score decides between equal sums.
            ranks = levels_of(score).float() + reference.float()
            score = score / (2 * score.max().clamp_min(1e-12)) - ranks
        return torch.nonzero(levels_of(score) < sixteenths(plan.rho_n)).flatten()

    def _own_score(self, site: Site, h: Tensor, before: _Anchor | None) -> Tensor:
        """How active the neurons are in this call, [F]; the change that a mask omits lies ahead,
        so the delta score takes the change from the anchor before for it."""
        norm = self._down_norm[site]
        if self._plan.score == 'delta' and before is not None:
            return neuron_score(h, before.h, norm, 'delta')
        return neuron_score(h, h, norm, 'contribution')

    def _reference_masks(self) -> NeuronMasks:
        if self._plan.masks is None:
            raise RuntimeError(f'mask_source {self._plan.mask_source!r} needs recorded masks')
        return self._plan.masks


def _check(plan: ActionPlan, steps: int) -> None:
    masks = plan.masks
    if masks is not None and (masks.anchors, masks.steps) != (plan.anchors, steps):
        raise ConfigError(
            f'masks: recorded with anchors {list(masks.anchors)} of {masks.steps} steps, expected '
            f'{list(plan.anchors)} of {steps}; record the reference again'
        )
    if (plan.unselected == 'reference') != (plan.steps_ref is not None):
        raise ConfigError(
            f'steps_ref: found {"none" if plan.steps_ref is None else "step states"} with '
            f'unselected {plan.unselected!r}; "reference" needs them, the others do not take them'
        )
