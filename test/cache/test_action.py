"""The Action Cache at one FFN, against its rules written out neuron by neuron."""

import itertools
import math

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.action import MASK_SOURCES, SCORES, UNSELECTED, ActionFfn, ActionPlan
from rmuscle_ros.cache.scores import down_norm
from rmuscle_ros.cache.states import NeuronMasks, StepStates
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.nn.mlp import GatedMlp, PlainMlp
from rmuscle_ros.types import ACTION, Site

SITE = Site(ACTION, 0)
# 37 neurons: their sixteenths are not whole.
WIDTH, HIDDEN, ROWS, STEPS = 6, 37, 5, 8
# Groups of 2, 1, 3 and 2 steps.
ANCHORS = (0, 2, 3, 6)
RHO_N = 0.3

kinds = pytest.mark.parametrize('kind', [GatedMlp, PlainMlp])
sources = pytest.mark.parametrize('source', MASK_SOURCES)
rules = pytest.mark.parametrize('unselected', UNSELECTED)


class Case:
    """One MLP, the inputs of all steps, and what a reference left behind."""

    def __init__(self, kind, seed=0, anchors=ANCHORS):
        generator = torch.Generator().manual_seed(seed)
        self.anchors = anchors
        self.mlp = kind(WIDTH, HIDDEN).requires_grad_(False)
        for parameter in self.mlp.parameters():
            parameter.normal_(0, 0.3, generator=generator)
        self.x = torch.randn(STEPS, ROWS, WIDTH, generator=generator)
        x_ref = torch.randn(STEPS, ROWS, WIDTH, generator=generator)
        self.h, self.h_ref = self.mlp.hidden(self.x), self.mlp.hidden(x_ref)
        self.reference = StepStates({SITE: self.h_ref}, {SITE: self.mlp.project(self.h_ref)})
        scores = torch.rand(len(anchors), 1, HIDDEN, generator=generator)
        self.masks = NeuronMasks.from_scores(scores, (SITE,), anchors, STEPS, 'delta')

    def runner(self, unselected='hold', source='reference', score='contribution', rho_n=RHO_N):
        plan = ActionPlan(
            self.anchors,
            rho_n,
            unselected,
            source,
            score,
            masks=None if source == 'anchor' else self.masks,
            steps_ref=self.reference if unselected == 'reference' else None,
        )
        return ActionFfn({SITE: self.mlp}, plan, {SITE: down_norm(self.mlp)}, STEPS)

    def run(self, ffn):
        """The FFN's outputs of all steps [STEPS, ROWS, WIDTH]."""
        outputs = []
        for step in range(STEPS):
            ffn.begin_step(step)
            outputs.append(ffn(SITE, self.x[step : step + 1])[0])
        return torch.stack(outputs)

    def expected(self, unselected, source, score):
        """The outputs by the rules of the module's docstring."""
        y, anchor, before = self.mlp(self.x), None, None
        for step in range(STEPS):
            if step in self.anchors:
                anchor, before = step, anchor
                continue
            mask = self.mask(source, score, anchor, before)
            change = self.unselected_change(unselected, step, anchor, before)
            change[:, mask] = self.h[step][:, mask] - self.h[anchor][:, mask]
            y[step] = y[anchor] + change @ self.mlp.down_proj
        return y

    def unselected_change(self, unselected, step, anchor, before):
        """How far every neuron is taken to have moved since the anchor [ROWS, HIDDEN]."""
        if unselected == 'reference':
            return self.h_ref[step] - self.h_ref[anchor]
        if unselected == 'extrapolate' and before is not None:
            rate = (self.h[anchor] - self.h[before]) / (anchor - before)
            return rate * (step - anchor)
        return torch.zeros(ROWS, HIDDEN)

    def mask(self, source, score, anchor, before):
        """The neurons that are computed up to the next anchor."""
        count = math.ceil(math.ceil(RHO_N * 16) * HIDDEN / 16)
        levels = self.masks.levels[self.anchors.index(anchor), 0].astype(int)
        activity = self.h[anchor]
        if score == 'delta' and before is not None:
            activity = activity - self.h[before]
        own = (activity.abs().sum(0) * self.mlp.down_proj.norm(dim=1)).tolist()
        by_score = sorted(range(HIDDEN), key=lambda n: -own[n])
        ranked = {
            'reference': sorted(range(HIDDEN), key=lambda n: levels[n]),
            'anchor': by_score,
            'both': sorted(by_score, key=lambda n: levels[n] + level(by_score.index(n))),
        }
        return sorted(ranked[source][:count])


def level(rank):
    """The level, 0 to 15, of the neuron with this rank among HIDDEN."""
    return next(k for k in range(16) if rank < math.ceil((k + 1) * HIDDEN / 16))


@kinds
@pytest.mark.parametrize('score', SCORES)
@sources
@rules
def test_every_combination_of_rules_does_what_it_says(kind, score, source, unselected):
    case = Case(kind)
    ffn = case.runner(unselected, source, score)
    expected = case.expected(unselected, source, score)
    torch.testing.assert_close(case.run(ffn), expected, atol=1e-5, rtol=1e-5)
    assert (ffn.anchor_calls, ffn.masked_calls) == (4, 4)


def test_the_rules_differ_from_one_another():
    case = Case(GatedMlp)
    outputs = [
        case.expected(*choice) for choice in itertools.product(UNSELECTED, MASK_SOURCES, SCORES)
    ]
    # A reference's mask knows no score of the call's own.
    distinct = {tuple(output.flatten().tolist()) for output in outputs}
    assert len(distinct) == 3 * (1 + 2 + 2)


@kinds
@sources
@rules
def test_all_neurons_give_the_dense_output_whatever_the_rules(kind, source, unselected):
    case = Case(kind)
    outputs = case.run(case.runner(unselected, source, rho_n=1.0))
    torch.testing.assert_close(outputs, case.mlp(case.x), atol=1e-5, rtol=1e-5)


@sources
@rules
def test_anchors_everywhere_are_bitwise_dense(source, unselected):
    case = Case(GatedMlp, anchors=tuple(range(STEPS)))
    ffn = case.runner(unselected, source)
    dense = [case.mlp(case.x[step : step + 1])[0] for step in range(STEPS)]
    assert torch.equal(case.run(ffn), torch.stack(dense))
    assert (ffn.anchor_calls, ffn.masked_calls) == (STEPS, 0)


@kinds
def test_each_group_uses_its_own_mask_and_its_own_anchor(kind):
    case = Case(kind, anchors=(0, 4))
    # group 0 ranks the neurons upwards, group 1 downwards
    rising = np.arange(HIDDEN) * 16 // HIDDEN
    levels = np.stack((rising, rising[::-1]))[:, None].astype(np.uint8)
    case.masks = NeuronMasks(levels, (SITE,), case.anchors, STEPS, 'delta')
    outputs = case.run(case.runner(rho_n=0.25))
    masks = (slice(0, 10), slice(27, 37))
    for step in range(STEPS):
        anchor, mask = step // 4 * 4, masks[step // 4]
        expected = case.mlp(case.x[anchor])
        if step != anchor:
            change = (case.h[step] - case.h[anchor])[:, mask]
            expected = expected + change @ case.mlp.down_proj[mask]
        torch.testing.assert_close(outputs[step], expected, atol=1e-6, rtol=1e-5)


def test_weights_are_gathered_once_per_group_that_has_followers(monkeypatch):
    gathered, select = [], GatedMlp.select

    def counted(mlp, neurons):
        gathered.append(len(neurons))
        return select(mlp, neurons)

    monkeypatch.setattr(GatedMlp, 'select', counted)
    case = Case(GatedMlp)
    case.run(case.runner())
    assert gathered == [12, 12, 12], 'anchor 2 is followed by anchor 3: nothing to gather'


@pytest.mark.parametrize(('anchors', 'steps'), [((0, 4), 8), (ANCHORS, 9)])
def test_masks_recorded_with_other_anchors_or_steps_are_refused(anchors, steps):
    case = Case(GatedMlp)
    case.masks = NeuronMasks(case.masks.levels, (SITE,), anchors, steps, 'delta')
    expected = rf'recorded with anchors \[{anchors[0]}, .* of {steps} steps, expected \[0, 2, 3, 6'
    with pytest.raises(ConfigError, match=expected):
        case.runner()


@pytest.mark.parametrize('unselected', ['hold', 'reference'])
def test_step_states_are_given_where_they_are_followed_and_only_there(unselected):
    case = Case(GatedMlp)
    states = None if unselected == 'reference' else case.reference
    plan = ActionPlan(ANCHORS, 0.5, unselected, masks=case.masks, steps_ref=states)
    with pytest.raises(ConfigError, match=f'with unselected {unselected!r}'):
        ActionFfn({SITE: case.mlp}, plan, {SITE: down_norm(case.mlp)}, STEPS)
