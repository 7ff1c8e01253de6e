"""Which slots serve: the best ready ones above the fence, and nothing below it."""

import dataclasses

import numpy as np
import pytest
import torch
from bare_entries import TASK, episode_of_keys

from rmuscle_ros.cache.guard import CopyErrors, Guard
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.memory.calibration import Calibration, Pair
from rmuscle_ros.memory.entry import TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.memory.memory import ReferenceMemory
from rmuscle_ros.types import Reason, WindowStatus


class FakeRebuilder:
    """Says which entries are expanded; remembers what was wanted. A state is its entry's id."""

    def __init__(self):
        self.ready, self.wanted, self.jobs = set(), [], []

    def want(self, entries, pinned=None):
        self.wanted = [entry.id for entry in entries]

    def get(self, entry):
        return entry.id if entry.id in self.ready else None

    def status(self, misses):
        return WindowStatus(misses=misses)

    def submit(self, job, doing):
        self.jobs.append(job)

    def check(self):
        pass


def unit(angle):
    """A key on a circle, [3], or one for each of an array of angles (rad)."""
    angle = np.asarray(angle, np.float32)
    return np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=-1)


STRANGE = np.array([0.0, 0.0, 1.0], np.float32)


def calibration(slopes):
    drift = np.array([0.1, 0.2], np.float32)
    return Calibration({f'a/{i}': Pair(drift, slopes) for i in range(3)})


@pytest.fixture
def memory():
    library = Library()
    for name, start in (('a', 0.0), ('b', 0.1)):
        angles = start + np.arange(8) * np.pi / 4
        library.add(episode_of_keys(name, unit(angles)))
    memory = ReferenceMemory(
        CacheConfig(lookahead=2, similarity_threshold=0.8), library, None, None
    )
    memory.rebuilder.close()
    memory.rebuilder = FakeRebuilder()
    memory._calibrations[TASK] = calibration(slopes=(2.0,))
    memory.begin_episode(TASK)
    return memory


def test_the_best_ready_slot_serves(memory):
    memory.rebuilder.ready = {'b/0'}
    match = memory.match(unit(0.0), TASK)
    assert (match.reason, match.entry.id) == (Reason.CACHED, 'b/0')
    memory.rebuilder.ready = {'a/0', 'b/0'}
    assert memory.match(unit(0.0), TASK).entry.id == 'a/0'


def test_a_ready_slot_below_the_fence_never_serves(memory):
    memory.rebuilder.ready = {'a/1', 'b/1', 'a/2'}
    match = memory.match(unit(0.0), TASK)
    assert match.reason is Reason.REFERENCE_NOT_READY
    assert match.entry is None
    assert match.similarity == pytest.approx(1.0, abs=1e-4)


def test_the_fence_tests_the_best_slot_ready_or_not(memory):
    assert memory.match(unit(0.0), TASK).reason is Reason.REFERENCE_NOT_READY
    assert memory.latched is None
    assert memory.match(STRANGE, TASK).reason is Reason.FALLBACK_SIMILARITY
    assert memory.latched is Reason.FALLBACK_SIMILARITY


def test_a_latch_clears_the_rebuild_queue(memory):
    memory.match(unit(0.0), TASK)
    assert memory.rebuilder.wanted
    memory.match(STRANGE, TASK)
    assert memory.rebuilder.wanted == []


def test_idle_time_expands_the_likely_first_entries(memory):
    memory.begin_episode()
    assert memory.rebuilder.wanted == ['b/0', 'a/0']


def test_as_many_first_entries_are_expanded_as_the_window_holds(memory):
    for name in 'cdefghijk':
        memory.library.add(episode_of_keys(name, unit(np.zeros(2))))
    memory.config = CacheConfig(candidates=2, lookahead=2)
    memory.begin_episode(TASK)
    assert memory.rebuilder.wanted == [f'{name}/0' for name in 'kjihgf']


def test_limits_are_per_view_and_not_needed_where_nothing_is_copied(memory):
    memory.rebuilder.ready = {'a/0'}
    assert memory.drift_limits().tolist() == pytest.approx([0.15, 0.3])
    assert memory.match(unit(0.0), TASK).drift_limits.tolist() == pytest.approx([0.15, 0.3])
    memory._calibrations.clear()
    memory.config = CacheConfig(rho_p=1.0)
    match = memory.match(unit(0.0), TASK)
    assert (match.reason, match.drift_limits) == (Reason.CACHED, None)


def test_without_calibration_nothing_is_copied(memory):
    memory._calibrations.clear()
    memory.rebuilder.ready = {'a/0'}
    match = memory.match(unit(0.0), TASK)
    assert match.reason is Reason.NOT_CALIBRATED and 'being calibrated' in match.detail


def test_trips_latch_only_in_a_row(memory):
    memory.rebuilder.ready = {'a/0'}
    memory.match(unit(0.0), TASK)
    for tripped in (True, True, False, True, True):
        memory.note_drift(tripped)
    assert memory.latched is None
    memory.note_drift(True)
    assert memory.match(unit(0.0), TASK).reason is Reason.FALLBACK_DRIFT


def test_a_flickering_camera_does_not_restart_the_window(memory):
    memory.match(unit(0.0), TASK)
    memory.match(unit(np.pi / 2), TASK)
    assert memory.rebuilder.wanted[0] == 'a/2'
    without = TaskKey('task', 'model', ())
    assert memory.match(unit(np.pi / 2), without).reason is Reason.NO_REFERENCE
    memory.match(unit(np.pi / 2), TASK)
    assert memory.rebuilder.wanted[0] == 'a/2'
    memory.begin_episode(TASK)
    memory.match(unit(0.0), TASK)
    assert memory.rebuilder.wanted[0] == 'a/0'


def test_the_best_ready_slots_serve_together_the_best_first(memory):
    memory.rebuilder.ready = {'a/0', 'b/0', 'a/1', 'b/1'}
    match = memory.match(unit(0.08), TASK)
    assert match.entry.id == 'b/0'
    assert match.states == ('b/0', 'a/0'), 'entries 1 are an eighth of a turn away'
    memory.config = dataclasses.replace(memory.config, references=1)
    assert memory.match(unit(0.08), TASK).states == ('b/0',)


def test_a_slot_that_is_not_expanded_leaves_its_place_to_the_next(memory):
    memory.rebuilder.ready = {'a/0'}
    match = memory.match(unit(0.08), TASK)
    assert (match.entry.id, match.states) == ('a/0', ('a/0',))
    assert match.similarity == pytest.approx(float(np.cos(0.08)), abs=1e-3)


def test_the_guard_has_the_calibrated_slope_and_the_budget_of_the_moment(memory):
    memory.rebuilder.ready = {'a/0'}
    memory.config = dataclasses.replace(memory.config, error_budget=0.03)
    assert memory.match(unit(0.0), TASK).guard == Guard(2.0, 0.03)
    memory.config = dataclasses.replace(memory.config, error_budget=0.5)
    assert memory.match(unit(0.0), TASK).guard.budget == 0.5
    memory.config = dataclasses.replace(memory.config, guard=False)
    assert memory.match(unit(0.0), TASK).guard is None


@pytest.mark.parametrize(
    ('guard', 'fence', 'reason'),
    [
        (True, True, Reason.NOT_CALIBRATED),
        (True, False, Reason.NOT_CALIBRATED),
        (False, True, Reason.CACHED),
        (False, False, Reason.CACHED),
    ],
)
def test_a_guard_without_a_slope_is_not_calibrated(memory, guard, fence, reason):
    """No pair of the library drifted at all: limits are known, a slope is not."""
    memory._calibrations[TASK] = calibration(slopes=())
    memory.rebuilder.ready = {'a/0'}
    memory.config = dataclasses.replace(memory.config, guard=guard, drift_fence=fence)
    assert memory.guard_slope() is None and memory.drift_limits() is not None
    assert memory.match(unit(0.0), TASK).reason is reason


def test_a_fence_that_is_off_has_no_limits_though_they_are_known(memory):
    memory.rebuilder.ready = {'a/0'}
    memory.config = dataclasses.replace(memory.config, drift_fence=False)
    assert memory.match(unit(0.0), TASK).drift_limits is None
    assert memory.drift_limits() is not None


def test_without_fence_and_guard_nothing_needs_calibration(memory):
    memory._calibrations.clear()
    memory.rebuilder.ready = {'a/0'}
    memory.config = dataclasses.replace(memory.config, guard=False, drift_fence=False)
    match = memory.match(unit(0.0), TASK)
    assert (match.reason, match.drift_limits, match.guard) == (Reason.CACHED, None, None)


def test_a_new_episode_follows_the_library_as_it_is_then(memory):
    memory.rebuilder.ready = {'a/0', 'b/0'}
    again = dataclasses.replace(next(iter(memory.library)), success=False)
    memory.library.replace(again)
    memory.begin_episode()
    assert memory.match(unit(0.0), TASK).entry is again.entries[0]
    assert memory._episodes[0] is again


def test_what_was_measured_is_kept_with_the_library(memory):
    """Admitting an episode calibrates anew, but measures what is new only."""
    measured = []

    def compare(entry, match, checkpoint):
        measured.append(entry.id)
        return CopyErrors(torch.tensor([0.1, 0.3]), {0.5: 0.02})

    memory._compare = compare
    memory.library.pairs.update(memory._calibrations.pop(TASK).pairs)
    memory.add(episode_of_keys('c', unit(np.arange(3) * np.pi / 4)))
    (job,) = memory.rebuilder.jobs
    job(lambda: None)
    known, every = {'a/0', 'a/1', 'a/2'}, {e.id for ep in memory.library for e in ep.entries}
    assert sorted(measured) == sorted(every - known)
    assert set(memory.library.pairs) == set(memory._calibrations[TASK].pairs) == every
    assert memory.drift_limits().shape == (2,)
