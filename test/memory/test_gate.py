import threading
import time

import pytest

from rmuscle_ros.memory.gate import Gate, GateClosedError


def work(gate, layers, layer_s, log):
    try:
        for layer in range(layers):
            gate.checkpoint()
            log.append(('start', layer, time.perf_counter()))
            time.sleep(layer_s)
            log.append(('end', layer, time.perf_counter()))
        gate.leave()
    except GateClosedError:
        log.append(('closed', -1, time.perf_counter()))


@pytest.fixture
def background():
    threads = []

    def start(*args):
        thread = threading.Thread(target=work, args=args, daemon=True)
        threads.append(thread)
        thread.start()
        return thread

    yield start
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_no_layer_starts_while_a_call_is_in_flight(background):
    gate, log = Gate(), []
    background(gate, 20, 0.01, log)
    time.sleep(0.035)
    calls = []
    for _ in range(3):
        with gate.call() as waited_ms:
            start = time.perf_counter()
            time.sleep(0.05)
            calls.append((start, time.perf_counter(), waited_ms))
        time.sleep(0.025)
    for kind, _, at in log:
        assert not any(start < at < end for start, end, _ in calls), kind
    assert [layer for kind, layer, _ in log if kind == 'start'], 'the background never worked'


def test_a_call_waits_at_most_one_layer(background):
    gate, log = Gate(), []
    background(gate, 10, 0.08, log)
    time.sleep(0.02)
    with gate.call() as waited_ms:
        done = [layer for kind, layer, _ in log if kind == 'end']
    assert done == [0]
    assert 20 < waited_ms < 160


def test_the_wait_is_nothing_when_the_background_is_idle():
    with Gate().call() as waited_ms:
        assert waited_ms < 5


def test_close_releases_a_waiting_background(background):
    gate, log = Gate(), []
    with gate.call():
        background(gate, 3, 0.01, log)
        time.sleep(0.02)
        gate.close()
        time.sleep(0.05)
    assert [entry[0] for entry in log] == ['closed']


def test_a_call_interrupted_while_it_waits_leaves_the_gate_open(background, monkeypatch):
    gate, log = Gate(), []

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gate._condition, 'wait_for', interrupted)
        with pytest.raises(KeyboardInterrupt), gate.call():
            pass
    background(gate, 1, 0.0, log).join(5)
    assert [kind for kind, _, _ in log] == ['start', 'end']


def test_overlapping_calls_are_refused():
    gate = Gate()
    with gate.call(), pytest.raises(RuntimeError, match='in flight already'), gate.call():
        pass
