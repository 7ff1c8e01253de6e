"""The recording runners: dense, and what they keep is what was computed."""

import pytest
import torch

from rmuscle_ros.cache.record import RecordFfn, RecordMasks, RecordSteps, StopPrefillError
from rmuscle_ros.cache.scores import down_norm, levels_of
from rmuscle_ros.nn.mlp import GatedMlp
from rmuscle_ros.types import ACTION, PREFIX, VISION, Site

SITES = (Site(ACTION, 0), Site(ACTION, 1))
WIDTH, HIDDEN, ROWS, STEPS = 6, 37, 5, 8
ANCHORS = (0, 2, 3, 6)
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(STEPS, 2, 1, ROWS, WIDTH, generator=GENERATOR)


def seeded(sites):
    modules = {}
    for site in sites:
        modules[site] = GatedMlp(WIDTH, HIDDEN).requires_grad_(False)
        for parameter in modules[site].parameters():
            parameter.normal_(0, 0.3, generator=GENERATOR)
    return modules


MODULES = seeded(SITES)


def run(ffn):
    """All steps at both sites; every output is compared with the module's own."""
    for step in range(STEPS):
        ffn.begin_step(step)
        for number, site in enumerate(SITES):
            assert torch.equal(ffn(site, X[step, number]), MODULES[site](X[step, number]))
    return ffn


@pytest.mark.parametrize('score', ['contribution', 'delta'])
def test_masks_rank_the_sums_over_the_steps_between_irregular_anchors(score):
    norms = {site: down_norm(mlp) for site, mlp in MODULES.items()}
    masks = run(RecordMasks(MODULES, norms, ANCHORS, STEPS, score)).masks
    assert (masks.anchors, masks.steps, masks.sites) == (ANCHORS, STEPS, SITES)
    assert masks.score == score
    assert masks.levels.shape == (4, 2, HIDDEN)
    between = {0: (1,), 2: (), 3: (4, 5), 6: (7,)}
    for group, (anchor, steps) in enumerate(between.items()):
        for number, site in enumerate(SITES):
            mlp, total = MODULES[site], torch.zeros(HIDDEN)
            for step in steps:
                term = mlp.hidden(X[step, number, 0])
                if score == 'delta':
                    term = term - mlp.hidden(X[anchor, number, 0])
                total += term.abs().sum(0) * mlp.down_proj.norm(dim=1)
            assert masks.of(group, site).tolist() == levels_of(total).tolist()


def test_step_states_are_what_every_ffn_did_in_every_step():
    states = run(RecordSteps(MODULES)).states
    for number, site in enumerate(SITES):
        assert torch.equal(states.h[site], MODULES[site].hidden(X[:, number, 0]))
        assert states.y[site].shape == (STEPS, ROWS, WIDTH)
        torch.testing.assert_close(states.y[site], MODULES[site](X[:, number, 0]))


def test_visual_rows_are_kept_of_prefix_sites_only():
    sites = (Site(VISION, 0), Site(PREFIX, 0), Site(ACTION, 0))
    modules, visual = seeded(sites), torch.tensor([1, 3])
    record = RecordFfn(modules, visual)
    for site in sites:
        assert torch.equal(record(site, X[0, 0]), modules[site](X[0, 0]))
    state = record.state()
    assert list(state.x) == list(state.y) == [sites[1]]
    assert torch.equal(state.x[sites[1]], X[0, 0, 0, visual])
    assert torch.equal(state.y[sites[1]], modules[sites[1]](X[0, 0])[0, visual])
    assert state.steps is None


def test_the_first_prefix_site_is_enough_where_only_its_input_is_asked_for():
    site = Site(PREFIX, 0)
    record = RecordFfn(seeded([site]), torch.tensor([0, 2]), first_site_only=True)
    with pytest.raises(StopPrefillError):
        record(site, X[0, 0])
    assert torch.equal(record.x[site], X[0, 0, 0, [0, 2]])
    assert not record.y
