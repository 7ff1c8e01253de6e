"""Fence and guard learned from pairs of the library, leave-one-episode-out."""

import numpy as np
import pytest
import torch
from bare_entries import episode_of_keys, station_keys

from rmuscle_ros.cache.guard import CopyErrors, residual
from rmuscle_ros.memory.calibration import (
    FEWEST_PAIRS,
    Calibration,
    Pair,
    calibrate,
    matching_pairs,
)

THRESHOLD = 0.8


def episodes_of(names, length=4, step=1.0):
    """Episodes that go through the same phases, slightly apart."""
    return [
        episode_of_keys(name, station_keys(np.arange(length) * step + 0.02 * number))
        for number, name in enumerate(names)
    ]


def copied(second=0.2, error=None):
    """What copying did: two views of four rows, the second one drifted by ``second``."""
    row_drift = torch.cat((torch.zeros(4), torch.full((4,), second)))
    return CopyErrors(row_drift, {0.25: 0.03} if error is None else error)


class Comparing:
    """A ``compare`` that notes which entries it was given."""

    def __init__(self, answer=None):
        self.calls, self.checkpoints = [], 0
        self.answer = answer or (lambda entry: copied())

    def __call__(self, entry, match, checkpoint):
        self.calls.append((entry.id, match.id))
        checkpoint()
        return self.answer(entry)

    def checkpoint(self):
        self.checkpoints += 1


def run(episodes, compare, known=None, threshold=THRESHOLD):
    known = {} if known is None else known
    return list(calibrate(episodes, compare, compare.checkpoint, threshold, known))


def test_pairs_never_come_from_the_same_episode():
    pairs = list(matching_pairs(episodes_of('abc'), most=64))
    assert len(pairs) == 12
    assert all(entry.episode_id != match.episode_id for entry, match, _ in pairs)
    assert all(entry.position == match.position for entry, match, _ in pairs)
    assert all(similarity > 0.9 for _, _, similarity in pairs)


def test_pairs_of_a_large_library_are_spread_over_it():
    pairs = list(matching_pairs(episodes_of('abcd', length=10), most=12))
    assert len({entry.id for entry, _, _ in pairs}) == 12
    first = [entry.episode_id for entry, _, _ in pairs[:FEWEST_PAIRS]]
    assert set(first) == set('abcd'), 'the first pairs cover all episodes'


def test_limits_are_quantiles_of_each_view():
    drifts = ([0.1, 0.5], [0.3, 0.6], [0.2, 0.4])
    pairs = {f'a/{i}': Pair(np.array(drift), ()) for i, drift in enumerate(drifts)}
    calibration = Calibration(pairs)
    assert calibration.limits(quantile=1.0, slack=2.0).tolist() == pytest.approx([0.6, 1.2])
    assert calibration.limits(quantile=0.5, slack=1.0).tolist() == pytest.approx([0.2, 0.5])


def test_the_slope_is_what_nine_of_ten_pairs_stayed_below():
    slopes = np.linspace(0.1, 1.1, 11)
    pairs = {f'a/{i}': Pair(np.zeros(2), (slope,)) for i, slope in enumerate(slopes)}
    assert Calibration(pairs).slope == pytest.approx(1.0)


def test_the_slope_of_planted_pairs_is_the_planted_one():
    """Errors that are 1.7 times the residual drift, at shares of the test's own."""

    def planted(entry):
        drift = copied(second=0.1 + 0.1 * entry.position).row_drift
        return CopyErrors(drift, {share: 1.7 * residual(drift, share) for share in (0.1, 0.3)})

    *_, calibration = run(episodes_of('ab', length=3), Comparing(planted))
    assert calibration.slope == pytest.approx(1.7, rel=1e-6)
    assert len(calibration.pairs) == 6


def test_pairs_that_did_not_drift_give_limits_but_no_slope():
    still = Comparing(lambda entry: copied(second=0.0))
    *_, calibration = run(episodes_of('ab'), still)
    assert calibration.slope is None
    assert calibration.limits(0.99, 1.5).tolist() == [0.0, 0.0]


@pytest.mark.parametrize('names', ['', 'a'])
def test_calibration_needs_two_episodes(names):
    compare = Comparing()
    assert run(episodes_of(names), compare) == []
    assert compare.calls == [] and compare.checkpoints == 0


def test_every_entry_is_measured_once_against_its_match_per_view():
    compare = Comparing(lambda entry: copied(second=0.1 * entry.position))
    *_, calibration = run(episodes_of('ab', length=3), compare)
    assert sorted(compare.calls) == [
        *((f'a/{i}', f'b/{i}') for i in range(3)),
        *((f'b/{i}', f'a/{i}') for i in range(3)),
    ]
    drifts = {entry_id: pair.drift.tolist() for entry_id, pair in calibration.pairs.items()}
    for name in 'ab':
        for position in range(3):
            assert drifts[f'{name}/{position}'] == pytest.approx([0.0, 0.1 * position])


def test_known_pairs_are_not_measured_again_and_new_ones_become_known():
    known, first = {}, Comparing()
    run(episodes_of('ab', length=3), first, known)
    assert sorted(known) == sorted(entry for entry, _ in first.calls)
    before = dict(known)
    second = Comparing()
    *_, calibration = run(episodes_of('abc', length=3), second, known)
    assert sorted(entry for entry, _ in second.calls) == ['c/0', 'c/1', 'c/2']
    assert len(calibration.pairs) == len(known) == 9
    assert all(calibration.pairs[entry] is pair for entry, pair in before.items())
    third = Comparing()
    run(episodes_of('abc', length=3), third, known)
    assert third.calls == []


def test_the_first_calibration_comes_before_all_pairs_are_measured():
    compare = Comparing()
    found = calibrate(episodes_of('ab', length=20, step=0.3), compare, compare.checkpoint, 0.8, {})
    assert len(next(found).pairs) == len(compare.calls) == FEWEST_PAIRS
    sizes = [len(calibration.pairs) for calibration in found]
    assert sizes == list(range(FEWEST_PAIRS + 1, 41))


def test_a_library_with_fewer_pairs_is_calibrated_on_what_it_has():
    (calibration,) = run(episodes_of('ab', length=2), Comparing())
    assert len(calibration.pairs) == 4 < FEWEST_PAIRS


def test_a_calibration_that_was_handed_out_does_not_change():
    compare = Comparing()
    found = calibrate(episodes_of('ab', length=10, step=0.5), compare, compare.checkpoint, 0.8, {})
    first = next(found)
    *_, last = found
    assert len(first.pairs) == FEWEST_PAIRS < len(last.pairs)


def test_pairs_the_similarity_fence_would_stop_do_not_count():
    near = station_keys(np.arange(3))
    far = station_keys(np.arange(3) + np.pi)
    one, strangers = episode_of_keys('a', near), episode_of_keys('c', far)
    *_, calibration = run([one, episode_of_keys('b', near)], Comparing())
    assert len(calibration.pairs) == 6
    compare = Comparing()
    assert run([one, strangers], compare) == []
    assert compare.calls == []
