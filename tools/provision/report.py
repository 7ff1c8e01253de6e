"""Progress lines, logged commands, and errors that say what happened and what to do."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

TAIL_LINES = 12
TAIL_COLUMNS = 160
# Lines that say nothing about a failure.
_NOISE = ('Requirement already satisfied', 'WARNING: Location', 'Collecting ', '  Downloading ')
# A line of a failed command's output -> what to do about it; the first match is told.
HINTS = (
    (
        'No space left on device',
        'Free some disk space: about 3 GB, or 10 GB with the CUDA build of PyTorch.',
    ),
    ('Permission denied', 'Make this folder and the files in it writable for your user.'),
    ('Read-only file system', 'Use a checkout on a writable file system.'),
    (
        '(from versions: none)',
        'The package index has nothing of that name: is it reachable? Check the network, any '
        'proxy, PIP_INDEX_URL and the other PIP_ settings.',
    ),
    (
        'No matching distribution found',
        'The package index has no such release for this Python. Check PIP_INDEX_URL and PIP_*, '
        'and that the pins in requirements/*.lock exist (they are for Python 3.11 and 3.12).',
    ),
    ('ResolutionImpossible', 'A pip constraint (PIP_CONSTRAINT, pip config) forbids a pin.'),
    ('name resolution', 'There is no network or no DNS: check it, and any proxy setting.'),
    ('NewConnectionError', 'The package index cannot be reached: check network and proxy.'),
    ('ConnectTimeoutError', 'The package index does not answer: check network and proxy.'),
    ('Unable to locate package', "Enable the distribution's main package source for apt-get."),
)


class StepError(Exception):
    """A step failed: ``why`` in words, ``todo`` for the reader, ``log`` with the whole output.

    step: ``number (title)``, filled in by the step it leaves. cut_short: a command was killed and
    may have left something half done.
    """

    def __init__(
        self, why: str, todo: str, tail: Sequence[str] = (), log: Path | None = None
    ) -> None:
        super().__init__(why)
        self.why = why
        self.todo = todo
        self.tail = list(tail)
        self.log = log
        self.step: str | None = None
        self.cut_short = False


class Progress:
    """Prints ``[2/7] title ... 41 s``; on a terminal the running seconds are shown too."""

    def __init__(self, total: int, stream: TextIO = sys.stdout) -> None:
        self.total = total
        self.stream = stream
        self.live = stream.isatty()
        self._line = ''
        self._start_s = 0.0

    @contextmanager
    def step(self, number: int, title: str) -> Iterator[None]:
        """Announce a step, run the block, and print how long it took or that it failed."""
        self._line = f'[{number}/{self.total}] {title} ... '
        self._start_s = time.monotonic()
        self._write(self._line)
        try:
            yield
        except BaseException as error:
            if isinstance(error, StepError):
                error.step = f'{number} ({title})'
            word = 'interrupted' if isinstance(error, KeyboardInterrupt) else 'failed'
            self._end(f'{word} after {self._elapsed()}')
            raise
        self._end(self._elapsed())

    def tick(self) -> None:
        """Show that the running step is alive (terminals only)."""
        if self.live:
            self._write(f'\r{self._line}{self._elapsed()}')

    def _end(self, text: str) -> None:
        self._write(f'\r{self._line}{text}\n' if self.live else f'{text}\n')

    def _elapsed(self) -> str:
        return f'{time.monotonic() - self._start_s:.0f} s'

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def run_logged(
    command: Sequence[str | Path],
    log: Path,
    progress: Progress,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run ``command``, its output appended to ``log``; a failure is a StepError with its end."""
    words = [str(word) for word in command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open('a', encoding='utf-8', errors='replace') as sink:
        sink.write(f'$ {" ".join(words)}\n')
        sink.flush()
        start = sink.tell()
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env, cwd=cwd
            )
        except OSError as error:
            raise StepError(
                f'{words[0]} cannot be started: {error.strerror}.',
                'Run `make clean`, then the same command again.',
                log=log,
            ) from error
        code = _wait(process, progress)
    if code:
        raise _failure(words, code, log, start)


def _wait(process: subprocess.Popen[bytes], progress: Progress) -> int:
    try:
        while True:
            try:
                return process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                progress.tick()
    except BaseException:
        # The terminal's Ctrl-C reaches the child as well; let it finish its own clean-up.
        process.terminate()
        process.wait()
        raise


def _failure(words: Sequence[str], code: int, log: Path, start: int) -> StepError:
    with log.open(encoding='utf-8', errors='replace') as source:
        source.seek(start)
        lines = [line.rstrip() for line in source if line.strip()]
    name = words[2] if words[1:2] == ['-m'] else Path(words[0]).name
    telling = [line for line in lines if not line.startswith(_NOISE)][-TAIL_LINES:]
    tail = [textwrap.shorten(line, TAIL_COLUMNS, placeholder=' ...') for line in telling]
    if code < 0:
        why = f'{name} was killed by signal {-code}.'
        todo = 'If nobody killed it, memory ran out. Run the same command again to go on.'
        killed = StepError(why, todo, tail, log)
        killed.cut_short = True
        return killed
    hints = (todo for text, todo in HINTS if any(text in line for line in lines))
    todo = next(hints, 'Read the log, mend what it names, and run the same command again.')
    return StepError(f'{name} exited with code {code}.', todo, tail, log)
