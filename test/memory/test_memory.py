"""Which slot serves: the best ready one above the fence, and nothing below it."""

import numpy as np
import pytest

from rmuscle_ros.config import CacheConfig
from rmuscle_ros.memory.calibration import DriftCalibration
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.memory.memory import ReferenceMemory
from rmuscle_ros.types import Reason

TASK = TaskKey('task', 'model', ('cam',))


class FakeRebuilder:
    """Says which entries are expanded; remembers what was wanted."""

    def __init__(self):
        self.ready, self.wanted = set(), []

    def want(self, entries, pinned=None):
        self.wanted = [entry.id for entry in entries]

    def get(self, entry):
        return entry.id if entry.id in self.ready else None

    def check(self):
        pass


def unit(angle):
    return np.array([np.cos(angle), np.sin(angle), 0.0], np.float32)


STRANGE = np.array([0.0, 0.0, 1.0], np.float32)


@pytest.fixture
def memory():
    library = Library()
    for name, start in (('a', 0.0), ('b', 0.1)):
        angles = start + np.arange(8) * np.pi / 4
        entries = tuple(
            Entry(name, i, None, unit(angle), None, None, None) for i, angle in enumerate(angles)
        )
        library.add(Episode(name, TASK, True, entries))
    memory = ReferenceMemory(CacheConfig(lookahead=2), library, None, None)
    memory.rebuilder.close()
    memory.rebuilder = FakeRebuilder()
    memory._calibrations[TASK] = DriftCalibration(np.tile([0.1, 0.2], (3, 1)))
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
    assert memory.rebuilder.wanted == ['a/0', 'b/0']


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
