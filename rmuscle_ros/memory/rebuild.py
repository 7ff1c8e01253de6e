"""The rebuild thread: expands wanted entries while no call is in flight.

Expanded states are too large to store, so they are recomputed from compact entries. Only the
rebuild thread adds to ``ready`` states; ``want`` removes what is no longer wanted.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.errors import RebuildError
from rmuscle_ros.memory.entry import Entry
from rmuscle_ros.memory.gate import Gate, GateClosedError
from rmuscle_ros.types import WindowStatus

Checkpoint = Callable[[], None]
Expand = Callable[[Entry, Checkpoint], ExpandedState]
Job = Callable[[Checkpoint], None]

_STOP_TIMEOUT_S = 10.0


class _NotWantedError(Exception):
    """The entry being expanded left the window."""


class Rebuilder:
    """Owns the expanded entries and the thread that makes them."""

    def __init__(self, expand: Expand, gate: Gate, cap_bytes: float) -> None:
        self._expand, self._gate, self._cap_bytes = expand, gate, cap_bytes
        self._condition = threading.Condition()
        self._asked: list[Entry] = []
        self._wanted: list[Entry] = []
        self._ready: dict[str, ExpandedState] = {}
        self._jobs: deque[tuple[Job, str]] = deque()
        self._in_job = False
        self._entry_bytes: int | None = None
        self._busy = False
        self._closed = False
        self._error: BaseException | None = None
        self._doing = ''
        self._times_ms: deque[float] = deque(maxlen=256)
        self._rebuilds = 0
        self._thread = threading.Thread(target=self._main, name='rmuscle-rebuild', daemon=True)
        self._thread.start()

    def want(self, entries: Sequence[Entry], pinned: Entry | None = None) -> None:
        """Replace the wanted list, most urgent first; expanded entries outside it are dropped.

        ``pinned`` is the entry in use: it is kept and counts first against the byte cap.
        """
        ordered = [pinned] if pinned else []
        ordered += [entry for entry in entries if pinned is None or entry.id != pinned.id]
        with self._condition:
            self._asked = ordered
            self._wanted = self._within_cap()
            keep = {entry.id for entry in self._wanted}
            self._ready = {key: state for key, state in self._ready.items() if key in keep}
            self._condition.notify_all()

    def _within_cap(self) -> list[Entry]:
        """What was asked for, without the farthest entries that exceed the byte cap."""
        if self._entry_bytes is None:
            return self._asked
        return self._asked[: int(self._cap_bytes // self._entry_bytes)]

    def submit(self, job: Job, doing: str) -> None:
        """Run ``job`` in the rebuild thread, after the expansions that are wanted now.

        Entries that become wanted meanwhile are expanded first, inside the job's checkpoints.
        doing: what it does, for the message of an exception that it raises.
        """
        with self._condition:
            self._jobs.append((job, doing))
            self._condition.notify_all()

    def get(self, entry: Entry) -> ExpandedState | None:
        """The entry's expanded state, or None while it is pending."""
        with self._condition:
            return self._ready.get(entry.id)

    @property
    def error(self) -> str | None:
        """What ended the thread, in words; None while it is healthy."""
        if self._error is not None:
            return f'{self._doing}: {type(self._error).__name__}: {self._error}'
        gone = not self._closed and not self._thread.is_alive()
        return 'the thread is gone without an exception' if gone else None

    def check(self) -> None:
        """Raise RebuildError when the thread has died."""
        error = self.error
        if error is not None:
            raise RebuildError(
                f'the rebuild thread died ({error}); reference states are no longer rebuilt: run '
                'densely or restart the policy'
            ) from self._error

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything wanted is expanded and no job is left; False on timeout."""
        with self._condition:
            done = self._condition.wait_for(
                lambda: (
                    self._error is not None
                    or (not self._busy and not self._jobs and self._next_entry() is None)
                ),
                timeout_s,
            )
        self.check()
        return done

    def status(self, misses: int) -> WindowStatus:
        with self._condition:
            times = list(self._times_ms)
            return WindowStatus(
                entries=len(self._ready),
                bytes=sum(state.bytes for state in self._ready.values()),
                capacity=len(self._wanted),
                pending=sum(entry.id not in self._ready for entry in self._wanted),
                rebuilds=self._rebuilds,
                rebuild_ms_p50=statistics.median(times) if times else None,
                misses=misses,
                skipped_over_cap=len(self._asked) - len(self._wanted),
                jobs=len(self._jobs) + self._in_job,
            )

    def close(self) -> None:
        """Stop the thread, which ends at most one layer later. RebuildError if it does not."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._gate.close()
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise RebuildError(
                f'the rebuild thread has not ended {_STOP_TIMEOUT_S:g} s after it was told to; '
                'one layer of the model takes longer than that, or the device hangs'
            )

    def _next_entry(self) -> Entry | None:
        return next((entry for entry in self._wanted if entry.id not in self._ready), None)

    def _main(self) -> None:
        try:
            while self._work_once():
                pass
        except GateClosedError:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to the next call by check()
            with self._condition:
                self._error = error
                self._condition.notify_all()
        finally:
            self._gate.leave()

    def _work_once(self) -> bool:
        """Wait for work and do one piece of it; False when closed."""
        with self._condition:
            self._busy = False
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._closed or self._jobs or self._next_entry())
            if self._closed:
                return False
            self._busy = True
        if not self._expand_next() and self._jobs:
            self._run_job()
        self._gate.leave()
        return True

    def _run_job(self) -> None:
        """Do the oldest job; entries wanted meanwhile come first, at its checkpoints."""
        with self._condition:
            job, doing = self._jobs.popleft()
            self._in_job = True

        def checkpoint() -> None:
            while self._expand_next():
                pass
            self._doing = doing
            self._gate.checkpoint()

        checkpoint()
        job(checkpoint)
        self._in_job = False

    def _expand_next(self) -> bool:
        """Expand the most urgent entry that is pending; False when none is."""
        with self._condition:
            entry = self._next_entry()
        if entry is None:
            return False
        self._doing = f'expanding {entry.id}'
        self._gate.checkpoint()
        self._expand_entry(entry)
        return True

    def _expand_entry(self, entry: Entry) -> None:
        """Expand, unless the entry leaves the window meanwhile. Times exclude gate waits."""
        spent_ms = 0.0
        resumed = time.perf_counter()

        def checkpoint() -> None:
            nonlocal spent_ms, resumed
            spent_ms += (time.perf_counter() - resumed) * 1e3
            if not self._is_wanted(entry):
                raise _NotWantedError
            self._gate.checkpoint()
            resumed = time.perf_counter()

        try:
            state = self._expand(entry, checkpoint)
        except _NotWantedError:
            return
        spent_ms += (time.perf_counter() - resumed) * 1e3
        with self._condition:
            self._rebuilds += 1
            self._times_ms.append(spent_ms)
            self._entry_bytes = state.bytes
            self._wanted = self._within_cap()
            if self._is_wanted(entry):
                self._ready[entry.id] = state

    def _is_wanted(self, entry: Entry) -> bool:
        with self._condition:
            return any(wanted.id == entry.id for wanted in self._wanted)
