"""Keeps background work off the critical path: a call waits at most one layer of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class GateClosedError(Exception):
    """Raised in the background thread at its next checkpoint after ``close``."""


class Gate:
    """Calls have priority; the background thread asks at ``checkpoint`` before each layer.

    At any time either a call runs or one background layer does, never both.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._in_call = False
        self._in_layer = False
        self._closed = False

    @contextmanager
    def call(self) -> Iterator[float]:
        """Hold off background work; yields the milliseconds waited for the layer in progress."""
        start = time.perf_counter()
        with self._condition:
            if self._in_call:
                raise RuntimeError('a call is in flight already; calls must not overlap')
            self._in_call = True
        try:
            with self._condition:
                self._condition.wait_for(lambda: not self._in_layer)
            yield (time.perf_counter() - start) * 1e3
        finally:
            with self._condition:
                self._in_call = False
                self._condition.notify_all()

    def checkpoint(self) -> None:
        """End the layer in progress and begin the next one as soon as no call is in flight."""
        with self._condition:
            self._in_layer = False
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._closed or not self._in_call)
            if self._closed:
                raise GateClosedError
            self._in_layer = True

    def leave(self) -> None:
        """The background thread has no layer in progress any more."""
        with self._condition:
            self._in_layer = False
            self._condition.notify_all()

    def close(self) -> None:
        """Release a background thread that waits; its checkpoint raises GateClosedError."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
