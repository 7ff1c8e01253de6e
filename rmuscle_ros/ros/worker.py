"""The inference thread of one activation. Pure: no ROS."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Command = Callable[[], Any]


class Worker:
    """Runs ``step`` again and again in a thread of its own, and commands between two steps.

    step: does one piece of work, returns the seconds until the next one; must not raise.
    """

    def __init__(self, step: Callable[[], float]) -> None:
        self._step = step
        self._lock = threading.Lock()
        self._commands: deque[tuple[Command, Future]] = deque()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether a stopped thread is still in a step that does not end."""
        with self._lock:
            return self._thread is not None and self._stop.is_set()

    def start(self) -> None:
        """Start a new thread; RuntimeError while there is an old one."""
        with self._lock:
            if self._thread is not None:
                raise RuntimeError('the inference thread still runs; stop it first')
            # An event of its own: a thread that outlives its activation never sees this one's.
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name='rmuscle-inference', daemon=True
            )
            self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Ask the thread to end and wait; False when a step outlasts ``timeout_s``."""
        with self._lock:
            thread = self._thread
            self._stop.set()
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def submit(self, command: Command) -> Future:
        """Run ``command`` in the thread between two steps, or at once when there is no thread."""
        future: Future = Future()
        with self._lock:
            if self._thread is not None:
                self._commands.append((command, future))
                return future
        _execute(command, future)
        return future

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._run_commands()
            wait_s = self._step()
            if wait_s > 0.0:
                stop.wait(wait_s)
        while not self._finish():
            self._run_commands()

    def _finish(self) -> bool:
        """End the thread, unless a command has come in meanwhile."""
        with self._lock:
            if not self._commands:
                self._thread = None
            return self._thread is None

    def _run_commands(self) -> None:
        while True:
            with self._lock:
                if not self._commands:
                    return
                command, future = self._commands.popleft()
            _execute(command, future)


def _execute(command: Command, future: Future) -> None:
    try:
        result = command()
    except Exception as error:  # noqa: BLE001, handed to whoever waits for the future
        future.set_exception(error)
    else:
        future.set_result(result)
