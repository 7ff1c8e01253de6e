"""Observations of planted calls, whose curves and overlaps are known exactly."""

import dataclasses

import numpy as np
import pytest
import torch

from rmuscle_ros.eval.characterise.observations import Data, action, context, overlap
from rmuscle_ros.eval.characterise.record import Activity, Call, Recording
from rmuscle_ros.eval.characterise.similarity import References, along_episodes, record_of
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.types import ACTION, PREFIX, ModelInputs, Site

ROWS, NEURONS, CAMERAS = 10, 32, ('left', 'right')
PREFIX_SITES = (Site(PREFIX, 0), Site(PREFIX, 1))
ACTION_SITES = (Site(ACTION, 0),)
# Masks, noise, actions and velocities play no part in matching.
UNUSED = (None,) * 4
RISING = torch.arange(1.0, NEURONS + 1)


def call(drift=None, change=None, score=RISING, episode='a', position=0, key=(1.0, 0.0)):
    """A call whose rows lie ``drift`` from ones at the input and ``change`` from zero after it."""
    drift = torch.zeros(ROWS) if drift is None else drift
    change = torch.zeros(ROWS) if change is None else change
    scores = {name: score.expand(2, 1, NEURONS) for name in ('contribution', 'delta', 'anchor')}
    none = np.empty(0, np.float32)
    inputs = ModelInputs(none, CAMERAS, none, 'stack')
    return Call(
        Entry(episode, position, inputs, np.array(key, np.float32), *UNUSED),
        Activity(
            {site: 1 + drift[:, None].expand(ROWS, 4) for site in PREFIX_SITES},
            {site: change[:, None] * torch.eye(4)[:1] for site in PREFIX_SITES},
            ACTION_SITES,
            scores,
            none,
        ),
    )


def data(calls, **others):
    """Each call is matched with a call that stands still, unless ``others`` say otherwise."""
    still = [call(episode='reference') for _ in calls]
    fields = {
        'matches': still,
        'other_phase': [None for _ in calls],
        'other_noise': [c.activity for c in calls],
        'other_match': still,
        'references': still,
        'other_task': still,
    }
    return Data(calls=calls, **(fields | others))


def test_rows_that_drift_most_hold_the_change_when_both_go_together():
    amount = torch.arange(ROWS) / ROWS
    result = context(data([call(amount, amount)]), 0.4)
    for measure, power in (('norm', 1), ('square', 2)):
        share = sum(n**power for n in (9, 8, 7, 6)) / sum(n**power for n in range(10))
        for order in ('drift', 'change'):
            found = result['at_rho_p'][measure][order]
            assert found['mean'] == pytest.approx(share, abs=1e-6)
            assert found['layers'] == {'prefix 0': found['mean'], 'prefix 1': found['mean']}
        curve = result['curves'][measure]['drift']['mean']
        assert (curve[0], curve[40], curve[100]) == (0, found['mean'], 1)


def test_rows_that_drift_most_hold_the_least_when_they_change_least():
    amount = torch.arange(ROWS) / ROWS
    at = context(data([call(amount.flip(0), amount)]), 0.4)['at_rho_p']['norm']
    assert at['drift']['mean'] == pytest.approx((0 + 1 + 2 + 3) / 45, abs=1e-6)
    assert at['change']['mean'] == pytest.approx((9 + 8 + 7 + 6) / 45, abs=1e-6)


def test_change_relative_to_the_values():
    amount = torch.full((ROWS,), 1.0)
    calls = [call(amount, amount)]
    result = context(data(calls, other_phase=calls), 0.4)['relative_change']
    # inputs 2 against 1, outputs 1 against 0
    assert result['match']['input']['mean'] == 0.5
    assert result['match']['output']['mean'] == 1
    assert result['other_phase']['input']['mean'] == 0
    assert context(data(calls), 0.4)['relative_change']['other_phase'] is None


def test_a_reference_with_the_same_ranks_keeps_as_much_as_the_best_mask():
    at = action(data([call()]), 0.5)['at_rho_n']['contribution']
    best = sum(range(17, 33)) / sum(range(1, 33))
    assert at['oracle']['mean'] == at['reference']['mean'] == pytest.approx(best, abs=1e-6)


def test_a_reference_with_the_reverse_ranks_keeps_the_least():
    reverse = [call(score=RISING.flip(0))]
    result = action(data([call()], matches=reverse), 0.5)
    for score in ('contribution', 'delta'):
        worst = sum(range(1, 17)) / sum(range(1, 33))
        assert result['at_rho_n'][score]['reference']['mean'] == pytest.approx(worst, abs=1e-6)
    assert result['at_rho_n']['delta']['reference_contribution']['mean'] == pytest.approx(
        worst, abs=1e-6
    )


def test_overlap_by_kind_of_pair():
    calls = [call(position=0), call(position=1), call(score=RISING.flip(0), episode='b')]
    others = [call(score=RISING.flip(0), episode='other')] * 3
    kinds = overlap(data(calls, other_match=others, other_task=others[:1]), 0.5)['kinds']
    for score in ('contribution', 'delta'):
        # the third call is the reverse of the references and equal to the other task
        assert kinds['other_noise'][score]['mean'] == 1
        assert kinds['match'][score]['mean'] == pytest.approx(2 / 3, abs=1e-6)
        assert kinds['other_task'][score]['mean'] == pytest.approx(1 / 3, abs=1e-6)
        # only the first two share an episode; no call is compared with itself
        assert kinds['same_episode'][score]['mean'] == 1
        assert kinds['same_episode'][score]['n'] == 2


def test_a_single_call_has_no_other_calls_in_its_episode():
    kinds = overlap(data([call()]), 0.5)
    assert kinds['kinds']['same_episode'] == {'contribution': None, 'delta': None}
    assert kinds['chance'] == 0.5


def recording(name, keys):
    calls = tuple(call(episode=name, position=n, key=key) for n, key in enumerate(keys))
    task = TaskKey('stack', 'mini', CAMERAS)
    return Recording(0, Episode(name, task, True, tuple(c.entry for c in calls)), calls)


TURN = [(np.cos(angle), np.sin(angle)) for angle in np.linspace(0, 3, 5)]


def test_the_best_match_is_the_nearest_key_and_another_phase_is_three_calls_away():
    references = References([recording('a', TURN), recording('b', TURN[::-1])])
    probe = call(position=0, key=TURN[1])
    match = references.best(probe)
    assert (match.call.entry.position, match.similarity) == (1, pytest.approx(1))
    other = references.best_other_phase(probe)
    assert other.call.entry.id == 'b/3'
    short = References([recording('a', TURN[:3])])
    assert short.best_other_phase(probe) is None


def test_drift_is_reported_per_view_in_units_of_its_limit():
    probe = call(drift=torch.cat((torch.ones(5), torch.zeros(5))))
    match = References([recording('a', TURN)]).best(probe)
    record = record_of(probe, match, np.array([0.25, 0.5], np.float32))
    # inputs 2 against 1 in the first view
    assert record['drift'] == {'left': 2.0, 'right': 0.0}
    assert dataclasses.astuple(match)[1:] == (record['similarity'], record['cosine'])


def test_bands_need_twenty_episodes():
    records = [
        {'call': n, 'similarity': k / 20, 'drift': dict.fromkeys(CAMERAS, 1.0)}
        for n, episodes in ((0, 21), (1, 19), (2, 1))
        for k in range(episodes)
    ]
    along = along_episodes(records, CAMERAS)
    assert along['call'] == [0, 1, 2]
    assert along['episodes'] == [21, 19, 1]
    assert along['similarity'][0] == pytest.approx({'p5': 0.05, 'p50': 0.5, 'p95': 0.95})
    assert along['similarity'][1] == {'p5': None, 'p50': 0.45, 'p95': None}
    assert along['similarity'][2] == {'p5': None, 'p50': None, 'p95': None}
    assert along['drift']['right'][0]['p50'] == 1
