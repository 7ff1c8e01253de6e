"""What the demo prints while it runs: one line per episode, alive on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TextIO

from rmuscle_ros.eval.records import EpisodeRecord
from rmuscle_ros.eval.summary import count_calls
from rmuscle_ros.ros.demo.plan import PlannedEpisode


class Progress:
    """Lines on ``stream``; on a terminal the last one is rewritten while something lasts."""

    def __init__(self, episodes: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._alive = self._stream.isatty()
        self._episodes = episodes
        self._unfinished = 0
        self._lock = threading.Lock()

    def add_episode(self) -> None:
        """One more episode than planned."""
        self._episodes += 1

    def line(self, text: str) -> None:
        """A line of its own; from any thread."""
        self._write(f'{text}\n', unfinished=0)

    def waiting(self, what: str, seconds: float) -> None:
        """Something takes a while; a plain line every 10 s where lines cannot be rewritten."""
        if self._alive:
            self._rewrite(f'waiting for {what}, {seconds:.0f} s')
        elif seconds >= 10.0 and int(seconds) % 10 == 0:
            self.line(f'still waiting for {what}, {seconds:.0f} s')

    def episode(self, number: int, planned: PlannedEpisode) -> Callable[[float, int], None]:
        """To be told seconds and calls of the running episode."""

        def update(seconds: float, calls: int) -> None:
            if self._alive:
                self._rewrite(f'{self._label(number, planned)} {seconds:4.1f} s {calls:4d} calls')

        return update

    def finished(self, number: int, planned: PlannedEpisode, record: EpisodeRecord) -> None:
        """The episode's outcome, as a line."""
        counts = ', '.join(
            f'{count} {category.replace("_", " ")}'
            for category, count in count_calls(record.calls).items()
            if count
        )
        verdict = {True: 'success', False: 'no success', None: 'no verdict'}[record.success]
        kept = {True: ', recorded', False: ', not recorded', None: ''}[record.admitted]
        note = f' ({record.note})' if record.note else ''
        self.line(
            f'{self._label(number, planned)} {len(record.calls):4d} calls: {counts or "none"}; '
            f'{verdict}{kept}{note}'
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cursor at the start of an empty line, whatever comes next."""
        self._write('', unfinished=0)

    def _label(self, number: int, planned: PlannedEpisode) -> str:
        return f'[{number:2d}/{self._episodes}] {planned.kind:9s} scene {planned.seed:<5d}'

    def _rewrite(self, text: str) -> None:
        self._write(text, unfinished=len(text))

    def _write(self, text: str, unfinished: int) -> None:
        with self._lock:
            erase = f'\r{" " * self._unfinished}\r' if self._unfinished else ''
            self._stream.write(erase + text)
            self._stream.flush()
            self._unfinished = unfinished
