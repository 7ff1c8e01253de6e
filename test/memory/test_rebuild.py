import threading
import time

import pytest
import torch
from bare_entries import bare_entry

from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.errors import RebuildError
from rmuscle_ros.memory.gate import Gate
from rmuscle_ros.memory.rebuild import Rebuilder
from rmuscle_ros.types import PREFIX, Site

SITE = Site(PREFIX, 0)


def entries(count):
    return [bare_entry('e', i) for i in range(count)]


def state():
    return ExpandedState({SITE: torch.zeros(4, 4)}, {SITE: torch.zeros(4, 4)})


class Expander:
    """Counts layers; remembers the positions of the entries it expanded."""

    def __init__(self, layers=3, layer_s=0.0):
        self.layers, self.layer_s, self.done = layers, layer_s, []
        self.fail_on = None

    def __call__(self, entry, checkpoint):
        for _ in range(self.layers):
            checkpoint()
            time.sleep(self.layer_s)
        if entry.position == self.fail_on:
            raise ValueError('poisoned entry')
        self.done.append(entry.position)
        return state()


@pytest.fixture
def make():
    made = []

    def make(expander, cap_bytes=1e9, gate=None):
        rebuilder = Rebuilder(expander, gate or Gate(), cap_bytes)
        made.append(rebuilder)
        return rebuilder

    yield make
    for rebuilder in made:
        rebuilder.close()
        assert not rebuilder._thread.is_alive()


def test_entries_are_expanded_in_order_of_urgency(make):
    expander = Expander()
    rebuilder = make(expander)
    e = entries(4)
    rebuilder.want([e[2], e[0], e[3]])
    assert rebuilder.drain(5)
    assert expander.done == [2, 0, 3]
    assert rebuilder.get(e[2]) is not None and rebuilder.get(e[1]) is None


def test_entries_that_left_the_window_are_dropped(make):
    rebuilder = make(Expander())
    e = entries(3)
    rebuilder.want(e[:2])
    assert rebuilder.drain(5)
    rebuilder.want(e[1:])
    assert rebuilder.get(e[0]) is None and rebuilder.get(e[1]) is not None
    assert rebuilder.drain(5)
    assert rebuilder.status(0).entries == 2


def test_an_expansion_is_given_up_when_its_entry_leaves(make):
    expander = Expander(layers=50, layer_s=0.01)
    rebuilder = make(expander)
    rebuilder.want(entries(1))
    time.sleep(0.05)
    rebuilder.want([])
    assert rebuilder.drain(0.3)
    assert expander.done == []


def test_the_farthest_are_skipped_over_the_byte_cap(make):
    rebuilder = make(Expander(), cap_bytes=2.5 * state().bytes)
    e = entries(5)
    rebuilder.want(e)
    assert rebuilder.drain(5)
    status = rebuilder.status(0)
    assert status.entries == 2 and status.bytes <= 2.5 * state().bytes
    assert status.skipped_over_cap == 3
    assert [rebuilder.get(entry) is not None for entry in e] == [True, True, False, False, False]


def test_the_pinned_entry_is_kept_first(make):
    rebuilder = make(Expander(), cap_bytes=2 * state().bytes)
    e = entries(5)
    rebuilder.want(e)
    assert rebuilder.drain(5)
    rebuilder.want(e[1:], pinned=e[0])
    assert rebuilder.get(e[0]) is not None
    rebuilder.want(e[2:], pinned=e[1])
    assert rebuilder.drain(5)
    assert rebuilder.get(e[0]) is None and rebuilder.get(e[1]) is not None


def test_no_layer_runs_during_a_call(make):
    gate = Gate()
    expander = Expander(layers=30, layer_s=0.002)
    rebuilder = make(expander, gate=gate)
    rebuilder.want(entries(3))
    with gate.call():
        before = list(expander.done)
        time.sleep(0.1)
        assert expander.done == before
    assert rebuilder.drain(5) and len(expander.done) == 3


def test_an_exception_in_the_thread_reaches_the_next_access(make):
    expander = Expander()
    expander.fail_on = 1
    rebuilder = make(expander)
    rebuilder.check()
    rebuilder.want(entries(2))
    with pytest.raises(RebuildError, match='ValueError: poisoned entry') as caught:
        rebuilder.drain(5)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(RebuildError):
        rebuilder.check()
    assert rebuilder.error.endswith('ValueError: poisoned entry')


def test_a_dead_thread_never_blocks_calls(make):
    gate = Gate()
    expander = Expander()
    expander.fail_on = 0
    rebuilder = make(expander, gate=gate)
    rebuilder.want(entries(1))
    rebuilder._thread.join(5)
    with gate.call() as waited_ms:
        assert waited_ms < 5


def test_jobs_run_after_wanted_entries(make):
    gate, order = Gate(), []
    expander = Expander()
    rebuilder = make(expander, gate=gate)
    with gate.call():
        rebuilder.want(entries(2))
        rebuilder.submit(lambda checkpoint: order.append(list(expander.done)), 'looking')
    assert rebuilder.drain(5)
    assert order == [[0, 1]]


def test_jobs_that_wait_or_run_are_counted(make):
    rebuilder, counts = make(Expander()), []

    def job(checkpoint):
        counts.append(rebuilder.status(0).jobs)

    assert rebuilder.status(0).jobs == 0
    with rebuilder._gate.call():
        rebuilder.submit(job, 'counting')
        rebuilder.submit(job, 'counting')
        assert rebuilder.status(0).jobs == 2
    assert rebuilder.drain(5)
    assert counts == [2, 1]
    assert rebuilder.status(0).jobs == 0


def test_entries_wanted_during_a_job_do_not_wait_for_its_end(make):
    expander, order = Expander(), []
    rebuilder = make(expander)
    e = entries(2)

    def job(checkpoint):
        rebuilder.want(e)
        order.append(list(expander.done))
        checkpoint()
        order.append(list(expander.done))

    rebuilder.submit(job, 'wanting')
    assert rebuilder.drain(5)
    assert order == [[], [0, 1]]


def test_no_layer_of_an_expansion_inside_a_job_runs_during_a_call(make):
    gate = Gate()
    expander = Expander(layers=30, layer_s=0.002)
    rebuilder = make(expander, gate=gate)
    inside = threading.Event()

    def job(checkpoint):
        rebuilder.want(entries(3))
        inside.set()
        checkpoint()

    rebuilder.submit(job, 'wanting')
    assert inside.wait(5)
    time.sleep(0.01)
    with gate.call():
        before = list(expander.done)
        time.sleep(0.1)
        assert expander.done == before
    assert rebuilder.drain(5) and len(expander.done) == 3


def test_the_error_names_the_job_also_after_an_expansion_inside_it(make):
    rebuilder = make(Expander())

    def job(checkpoint):
        rebuilder.want(entries(1))
        checkpoint()
        raise ValueError('no')

    rebuilder.submit(job, 'comparing')
    with pytest.raises(RebuildError, match='comparing: ValueError: no'):
        rebuilder.drain(5)


def test_an_entry_that_leaves_before_it_is_begun_does_not_hurt(make):
    rebuilder = make(Expander())
    seen_once = entries(1)
    rebuilder._next_entry = lambda: seen_once.pop() if seen_once else None
    rebuilder.want([])
    deadline_s = time.monotonic() + 5
    while seen_once and time.monotonic() < deadline_s:
        time.sleep(0.001)
    assert rebuilder.drain(5) and not seen_once


def test_times_exclude_the_wait_for_calls(make):
    gate, begun = Gate(), threading.Event()

    def expand(entry, checkpoint):
        checkpoint()
        begun.set()
        time.sleep(0.01)
        checkpoint()
        return state()

    rebuilder = make(expand, gate=gate)
    rebuilder.want(entries(1))
    assert begun.wait(5)
    with gate.call():
        time.sleep(0.3)
    assert rebuilder.drain(5)
    assert 10 <= rebuilder.status(0).rebuild_ms_p50 < 150


def test_no_data_is_none(make):
    status = make(Expander()).status(0)
    assert status.rebuild_ms_p50 is None and status.entries == 0


def test_close_ends_the_thread_in_the_middle_of_an_expansion():
    started = threading.Event()

    def slow(entry, checkpoint):
        for _ in range(1000):
            checkpoint()
            started.set()
            time.sleep(0.01)

    rebuilder = Rebuilder(slow, Gate(), 1e9)
    rebuilder.want(entries(1))
    assert started.wait(5)
    start = time.perf_counter()
    rebuilder.close()
    assert time.perf_counter() - start < 1 and not rebuilder._thread.is_alive()


def test_the_error_names_what_the_thread_was_doing(make):
    def failing(entry, checkpoint):
        raise ValueError('poisoned')

    rebuilder = make(failing)
    rebuilder.want(entries(4)[3:])
    with pytest.raises(RebuildError, match='expanding e/3: ValueError: poisoned'):
        rebuilder.drain(5)
