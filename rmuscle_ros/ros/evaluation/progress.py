"""The progress of an evaluation through the nodes: a bar, and lines above it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm


class Progress:
    """Writes to stderr, as bars do; what passes quickly is shown on a terminal only."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._bar: tqdm | None = None
        self._shown = ''

    @contextmanager
    def bar(self, total: int) -> Iterator[tqdm]:
        """The bar of ``total`` episodes; one at a time."""
        with tqdm(total=total, unit='episode') as bar:
            self._bar = bar
            try:
                yield bar
            finally:
                self._bar = None

    def line(self, text: str) -> None:
        """A line of its own; from any thread."""
        tqdm.write(text, file=sys.stderr)

    def episode(self, seconds: float, calls: int) -> None:
        """How far the running episode is."""
        self._show(f'{seconds:.0f} s, {calls} calls')

    def waiting(self, what: str, seconds: float) -> None:
        """Something takes a while."""
        self._show(f'waiting for {what}, {seconds:.0f} s')

    def _show(self, text: str) -> None:
        if self._live and self._bar is not None and text != self._shown:
            self._shown = text
            self._bar.set_postfix_str(text)
