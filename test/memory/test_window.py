import numpy as np
import pytest
from bare_entries import bare_entry

from rmuscle_ros.memory.entry import Episode, TaskKey
from rmuscle_ros.memory.window import Window

TASK = TaskKey('task', 'model', ('cam',))


def episode(name, length):
    entries = tuple(bare_entry(name, i) for i in range(length))
    return Episode(name, TASK, True, entries)


def peak(length, at, height=1.0):
    """Similarity that falls off around position ``at``."""
    return height - 0.1 * np.abs(np.arange(length) - at)


def ids(slots):
    return [slot.entry.id for slot in slots]


def test_candidates_are_the_best_first_entries():
    window = Window(candidates=2, lookahead=1, advance_margin=0.0)
    episodes = [episode(name, 3) for name in 'abc']
    first = {'a': 0.7, 'b': 0.9, 'c': 0.8}
    slots = window.update(episodes, {n: np.array([v, 0.1, 0.1]) for n, v in first.items()})
    assert {slot.entry.episode_id for slot in slots} == {'b', 'c'}
    assert ids(slots)[0] == 'b/0'


def test_candidates_stay_for_the_episode():
    window = Window(1, 1, 0.0)
    episodes = [episode(name, 3) for name in 'ab']
    window.update(episodes, {'a': peak(3, 0), 'b': peak(3, 0, 0.5)})
    slots = window.update(episodes, {'a': peak(3, 0, 0.1), 'b': peak(3, 0)})
    assert {slot.entry.episode_id for slot in slots} == {'a'}


def test_position_advances_with_the_best_match_and_never_returns():
    window = Window(1, 4, 0.0)
    episodes = [episode('a', 9)]
    window.update(episodes, {'a': peak(9, 0)})
    assert window.update(episodes, {'a': peak(9, 3)})[0].entry.id == 'a/3'
    assert window.wanted()[0].id == 'a/3'
    assert window.update(episodes, {'a': peak(9, 1)})[0].entry.id == 'a/3'


def test_undo_takes_the_last_advance_back():
    window = Window(1, 4, 0.0)
    episodes = [episode('a', 9)]
    window.update(episodes, {'a': peak(9, 1)})
    window.update(episodes, {'a': peak(9, 4)})
    window.undo()
    assert window.wanted()[0].id == 'a/1'


def test_a_later_slot_must_beat_the_current_one_by_the_margin():
    window = Window(1, 4, 0.05)
    episodes = [episode('a', 3)]
    window.update(episodes, {'a': np.array([0.90, 0.94, 0.1])})
    assert window.wanted()[0].id == 'a/0'
    window.update(episodes, {'a': np.array([0.90, 0.96, 0.1])})
    assert window.wanted()[0].id == 'a/1'


def test_at_the_edge_the_search_goes_on_by_keys_alone():
    window = Window(1, 2, 0.0)
    episodes = [episode('a', 20)]
    window.update(episodes, {'a': peak(20, 0)})
    slots = window.update(episodes, {'a': peak(20, 13)})
    assert slots[0].entry.id == 'a/13' and slots[0].ahead == 0


def test_a_window_without_lookahead_follows_the_episode():
    window = Window(1, 0, 0.0)
    episodes = [episode('a', 9)]
    window.update(episodes, {'a': peak(9, 0)})
    window.update(episodes, {'a': peak(9, 5)})
    assert [entry.id for entry in window.wanted()] == ['a/5']


def test_the_window_ends_with_the_episode():
    window = Window(1, 4, 0.0)
    episodes = [episode('a', 3)]
    window.update(episodes, {'a': peak(3, 2)})
    assert [entry.id for entry in window.wanted()] == ['a/2']


def test_wanted_is_current_positions_first_best_candidate_first():
    window = Window(4, 2, 0.0)
    episodes = [episode(name, 5) for name in 'ab']
    window.update(episodes, {'a': peak(5, 0, 0.8), 'b': peak(5, 0, 0.9)})
    assert [e.id for e in window.wanted()] == ['b/0', 'a/0', 'b/1', 'a/1', 'b/2', 'a/2']


@pytest.mark.parametrize(('candidates', 'lookahead'), [(4, 4), (1, 0), (2, 3)])
def test_window_size(candidates, lookahead):
    window = Window(candidates, lookahead, 0.0)
    episodes = [episode(str(i), 30) for i in range(6)]
    window.update(episodes, {e.id: peak(30, 0) for e in episodes})
    assert len(window.wanted()) == candidates * (1 + lookahead)
