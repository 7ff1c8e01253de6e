"""The inference thread: starts, stops within bounds, runs commands between steps."""

from __future__ import annotations

import threading
import time

import pytest

from rmuscle_ros.ros.worker import Worker


class Step:
    """A step that can be kept from ending."""

    def __init__(self) -> None:
        self.count = 0
        self.threads: set[int] = set()
        self.inside = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> float:
        self.count += 1
        self.threads.add(threading.get_ident())
        self.inside.set()
        self.gate.wait(5.0)
        self.inside.clear()
        return 0.001

    def block(self) -> None:
        self.gate.clear()
        self.inside.clear()
        assert self.inside.wait(5.0)


@pytest.fixture
def step():
    found = Step()
    yield found
    found.gate.set()


def test_ten_activations_in_a_row(step):
    worker = Worker(step)
    for _ in range(10):
        before = step.count
        worker.start()
        while step.count < before + 3:
            time.sleep(0.001)
        assert worker.stop(1.0)
        assert not worker.busy
    assert not [t for t in threading.enumerate() if t.name == 'rmuscle-inference']


def test_stop_without_start_is_fine(step):
    assert Worker(step).stop(0.1)


def test_stop_is_bounded_and_the_worker_busy_until_the_step_ends(step):
    worker = Worker(step)
    worker.start()
    step.block()
    begin_s = time.monotonic()
    assert not worker.stop(0.1)
    assert time.monotonic() - begin_s < 0.5
    assert worker.busy
    with pytest.raises(RuntimeError, match='still runs'):
        worker.start()
    step.gate.set()
    assert worker.stop(1.0)
    assert not worker.busy
    worker.start()
    assert worker.stop(1.0)


def test_command_runs_in_the_thread_between_steps(step):
    worker = Worker(step)
    worker.start()
    step.block()
    future = worker.submit(threading.get_ident)
    time.sleep(0.02)
    assert not future.done()
    step.gate.set()
    assert future.result(1.0) in step.threads
    assert worker.stop(1.0)


def test_command_without_a_thread_runs_at_once(step):
    assert Worker(step).submit(threading.get_ident).result(0.0) == threading.get_ident()


def test_command_that_comes_while_stopping_is_not_lost(step):
    worker = Worker(step)
    worker.start()
    step.block()
    assert not worker.stop(0.05)
    future = worker.submit(lambda: 'done')
    step.gate.set()
    assert future.result(1.0) == 'done'
    assert worker.stop(1.0)


def test_exception_of_a_command_reaches_its_caller_and_the_thread_lives_on(step):
    worker = Worker(step)
    worker.start()
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 / 0).result(1.0)
    before = step.count
    while step.count == before:
        time.sleep(0.001)
    assert worker.stop(1.0)
