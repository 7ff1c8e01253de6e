"""The Context Cache at planted states: which reference serves a row, and when none does."""

import math

import numpy as np
import pytest
import torch

from rmuscle_ros.cache.context import ContextFfn
from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.kernels.token_drift import token_drift
from rmuscle_ros.nn.mlp import GatedMlp
from rmuscle_ros.types import PREFIX, Site

SITES = (Site(PREFIX, 0), Site(PREFIX, 1))
WIDTH = 6
# Two views of four rows, then two text rows.
VISUAL, TEXT = torch.arange(8), torch.tensor([8, 9])
ROWS = 10


def modules():
    generator = torch.Generator().manual_seed(0)
    made = {}
    for site in SITES:
        made[site] = GatedMlp(WIDTH, 16).requires_grad_(False)
        for parameter in made[site].parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return made


MODULES = modules()
X = torch.randn(2, 1, ROWS, WIDTH, generator=torch.Generator().manual_seed(1))


def marked(distance, mark):
    """A reference at ``distance`` (one number, or one per row) whose outputs all are ``mark``."""
    distance = torch.as_tensor(distance, dtype=torch.float32).expand(8)[:, None]
    x = {site: X[number, 0, :8] * (1 + distance) for number, site in enumerate(SITES)}
    return ExpandedState(x, {site: torch.full((8, WIDTH), float(mark)) for site in SITES})


def runner(states, rho_p, limit=1.0, fence=True, guard=None):
    limits = torch.full((2,), limit)
    return ContextFfn(MODULES, states, VISUAL, TEXT, rho_p, limits, fence, guard)


def run(ffn):
    return [ffn(site, X[number]) for number, site in enumerate(SITES)]


def test_every_row_takes_its_nearest_reference():
    near_first = torch.tensor([0.1] * 3 + [0.5] * 5)
    near_last = torch.tensor([0.5] * 3 + [0.2] * 5)
    ffn = runner((marked(near_first, 1), marked(near_last, 2), marked(0.9, 3)), rho_p=0.0)
    for number, y in enumerate(run(ffn)):
        assert y[0, :8, 0].tolist() == [1.0] * 3 + [2.0] * 5
        expected = MODULES[SITES[number]](X[number])
        torch.testing.assert_close(y[0, 8:], expected[0, 8:])
    assert ffn.trace.row_drift.tolist() == pytest.approx([0.1] * 3 + [0.2] * 5, rel=1e-4)
    assert ffn.trace.drift == pytest.approx(0.2, rel=1e-4)


def test_a_row_keeps_the_reference_of_the_first_site():
    first, second = marked(0.1, 1), marked(0.2, 2)
    last = SITES[1]
    first.x[last], second.x[last] = second.x[last], first.x[last]
    ffn = runner((first, second), rho_p=0.0)
    assert [y[0, :8, 0].tolist() for y in run(ffn)] == [[1.0] * 8] * 2


def test_each_site_recomputes_the_rows_that_drifted_most_there():
    state = marked(torch.tensor([0.1] * 7 + [0.9]), 1)
    last = SITES[1]
    state.x[last] = marked(torch.tensor([0.9] + [0.1] * 7), 1).x[last]
    ffn = runner((state,), rho_p=0.125)
    run(ffn)
    assert [rows.tolist() for rows in ffn.trace.selected.values()] == [[7, 8, 9], [0, 8, 9]]
    assert ffn.trace.row_drift.argmax() == 7, 'what the trace keeps is of the first site'


def test_the_rows_recomputed_are_those_farthest_from_their_own_reference():
    # Rows 0 to 3 are near the first, 4 to 7 near the second; 3 and 4 farthest from their own.
    first = torch.tensor([0.1, 0.2, 0.1, 0.4, 0.9, 0.9, 0.9, 0.9])
    second = torch.tensor([0.9, 0.9, 0.9, 0.9, 0.3, 0.1, 0.2, 0.1])
    ffn = runner((marked(first, 1), marked(second, 2)), rho_p=0.25)
    run(ffn)
    assert [rows.tolist() for rows in ffn.trace.selected.values()] == [[3, 4, 8, 9]] * 2
    assert (ffn.trace.sites, ffn.trace.computed_rows, ffn.trace.copied_rows) == (2, 8, 12)


def test_one_reference_given_twice_is_bitwise_one():
    state = marked(torch.linspace(0.1, 0.8, 8), 1)
    once, twice = runner((state,), 0.4), runner((state, state), 0.4)
    assert all(map(torch.equal, run(once), run(twice)))
    assert once.trace.drift == twice.trace.drift


@pytest.mark.parametrize('guard', [None, Guard(1.0, 1e9)])
def test_the_fence_trips_on_the_worst_view_and_nothing_is_copied(guard):
    state = marked(torch.tensor([0.1] * 4 + [0.3] * 4), 1)
    tripped = runner((state,), 0.4, limit=0.29, guard=guard)
    for number, y in enumerate(run(tripped)):
        assert torch.equal(y, MODULES[SITES[number]](X[number]))
    trace = tripped.trace
    assert trace.tripped and not trace.reused
    assert (trace.rho_p, trace.copied_rows, trace.estimate) == (None, 0, None)
    assert trace.drift == pytest.approx(0.3 / 0.29, rel=1e-4)
    passed = runner((state,), 0.4, limit=0.31, guard=guard)
    run(passed)
    assert passed.trace.reused and not passed.trace.tripped


def test_without_a_fence_drift_is_measured_but_copied():
    ffn = runner((marked(0.9, 1),), 0.0, limit=0.1, fence=False)
    run(ffn)
    assert ffn.trace.reused and ffn.trace.drift == pytest.approx(9.0, rel=1e-4)


def test_a_drift_that_is_not_a_number_does_not_pass_the_fence():
    ffn = runner((marked(math.nan, 1),), 0.4, limit=1e9)
    run(ffn)
    assert ffn.trace.tripped and not ffn.trace.reused


def test_the_guard_recomputes_as_much_as_its_budget_asks_for():
    distance = np.linspace(0.1, 0.8, 8)
    state = marked(distance, 1)
    # Of 8 rows, 40 % leave the four nearest, 60 % the three nearest.
    left = {0.4: distance[:4].sum() / 8, 0.6: distance[:3].sum() / 8}
    for share, residual in left.items():
        ffn = runner((state,), 0.2, guard=Guard(2.0, 2.0 * residual * 1.001))
        run(ffn)
        assert ffn.trace.rho_p == share
        assert ffn.trace.estimate == pytest.approx(2.0 * residual, rel=1e-4)
        assert ffn.trace.copied_rows == 2 * (4 if share == 0.4 else 3)


def test_over_budget_nothing_is_copied_and_the_fence_is_not_to_blame():
    ffn = runner((marked(0.5, 1),), 0.2, guard=Guard(1.0, 1e-6))
    for number, y in enumerate(run(ffn)):
        assert torch.equal(y, MODULES[SITES[number]](X[number]))
    trace = ffn.trace
    assert not trace.reused and not trace.tripped
    assert trace.estimate == pytest.approx(0.5 / 8, rel=1e-4), 'one row of eight is left at 0.8'


def test_the_guard_looks_at_the_nearest_reference_of_every_row():
    near, far = marked(0.1, 1), marked(0.8, 2)
    budget = 0.1 * 6 / 8 * 1.001
    for states, expected in (((far,), None), ((far, near), 0.2)):
        ffn = runner(states, 0.2, guard=Guard(1.0, budget))
        run(ffn)
        assert ffn.trace.rho_p == expected


def test_full_share_recomputes_all_and_asks_neither_fence_nor_guard():
    ffn = runner((marked(0.9, 1), marked(0.8, 2)), 1.0, limit=1e-9, guard=Guard(1.0, 0.0))
    for number, y in enumerate(run(ffn)):
        assert torch.equal(y, MODULES[SITES[number]](X[number]))
    assert (ffn.trace.rho_p, ffn.trace.drift, ffn.trace.copied_rows) == (1.0, None, 0)
    assert torch.equal(ffn.trace.row_drift, token_drift(X[0, 0, :8], X[0, 0, :8] * 1.8))
