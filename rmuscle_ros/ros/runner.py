"""A small process runner for a :mod:`deployment <rmuscle_ros.ros.deployment>`.

It stands in for ``ros2 launch`` where that is not installed: starts the processes, keeps their
output, notices one that dies, and stops them without leaving any behind. Uses no rclpy.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from rmuscle_ros.errors import ProcessError, SetupError
from rmuscle_ros.ros.deployment import LAUNCH_FILE, PACKAGE, Deployment, NodeProcess

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_ALARMING = ('[ERROR]', '[FATAL]')
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == 'linux' else None


@dataclass(frozen=True)
class Command:
    """A process to run; ``name`` labels its output and its log file."""

    name: str
    argv: tuple[str, ...]


def node_command(process: NodeProcess, environment: Mapping[str, str]) -> Command:
    """The command of a node, its executable looked up along AMENT_PREFIX_PATH as ros2 run does."""
    prefixes = [Path(p) for p in environment.get('AMENT_PREFIX_PATH', '').split(os.pathsep) if p]
    for prefix in prefixes:
        path = prefix / 'lib' / process.package / process.executable
        if os.access(path, os.X_OK) and path.is_file():
            return Command(process.name, (str(path), *process.arguments()))
    raise SetupError(
        f'{process.package}: no executable {process.executable} below AMENT_PREFIX_PATH '
        f'({", ".join(map(str, prefixes)) or "which is empty"}); run make setup, or source the '
        "workspace's install/setup.bash"
    )


def commands(deployment: Deployment, environment: Mapping[str, str]) -> list[Command]:
    """``ros2 launch`` as one command where it is installed, else one command per process.

    Lifecycle transitions are left to the caller in both cases.
    """
    ros2 = shutil.which('ros2', path=environment.get('PATH'))
    if ros2 and _has_launch(ros2, environment):
        arguments = replace(deployment, autostart=False).launch_arguments()
        return [Command('launch', (ros2, 'launch', PACKAGE, LAUNCH_FILE, *arguments))]
    return [node_command(process, environment) for process in deployment.processes()]


def _has_launch(ros2: str, environment: Mapping[str, str]) -> bool:
    """Whether ``ros2 launch`` works: the verb is a plug-in that ``ros2`` alone does not bring."""
    try:
        answer = subprocess.run(
            [ros2, 'launch', '--help'],
            env=dict(environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


class ManagedProcess:
    """One running process and its output."""

    def __init__(
        self,
        command: Command,
        environment: Mapping[str, str],
        log_file: Path,
        show: Callable[[str], None],
    ) -> None:
        self.command = command
        self.log_file = log_file
        self.tail: deque[str] = deque(maxlen=30)
        self._show = show
        self._log = log_file.open('w')
        try:
            self._process = subprocess.Popen(
                command.argv,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors='replace',
                # A session of its own: Ctrl-C reaches only us, and we stop the processes in order.
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            self._log.close()
            raise ProcessError(
                f'{command.name}: cannot start {command.argv[0]} ({error.strerror})'
            ) from error
        self._reader = threading.Thread(target=self._read, name=f'log {command.name}', daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Exit code within ``timeout_s``, else None."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: int) -> None:
        """Send ``number`` to the process and everything it has started."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def finish(self) -> None:
        """Collect the last output of a process that has ended; sweep up what it left running."""
        self.signal(signal.SIGKILL)
        self._reader.join(timeout=2.0)

    def last_lines(self) -> str:
        return ''.join(f'\n  | {line}' for line in self.tail) or ' (it printed nothing)'

    def _read(self) -> None:
        assert self._process.stdout is not None  # for mypy: it is a pipe
        with self._log, self._process.stdout as stream:
            for line in stream:
                self._log.write(line)
                self._log.flush()
                self.tail.append(line.rstrip('\n'))
                if any(mark in line for mark in _ALARMING):
                    self._show(f'[{self.command.name}] {line.rstrip()}')


def _die_with_parent() -> None:
    """In the child, before exec: be killed when the runner dies without having stopped it."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Runner:
    """Runs commands; a context manager that stops them however the block is left.

    Start it from the main thread: the kernel ties the processes' lives to the starting thread.

    show: where lines that report an error go, such as ``print``.
    grace_s: how long a process may take to end after SIGINT, then after SIGTERM.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        environment: Mapping[str, str],
        log_directory: Path,
        show: Callable[[str], None],
        grace_s: tuple[float, float] = (15.0, 3.0),
    ) -> None:
        self._commands = tuple(commands)
        self._environment = environment
        self._log_directory = log_directory
        self._show = show
        self._grace_s = grace_s
        self._running: list[ManagedProcess] = []

    def start(self) -> None:
        """Start all commands in order; when one cannot start, the ones before it are stopped."""
        self._log_directory.mkdir(parents=True, exist_ok=True)
        try:
            for command in self._commands:
                log_file = self._log_directory / f'{command.name}.log'
                self._running.append(
                    ManagedProcess(command, self._environment, log_file, self._show)
                )
        except ProcessError:
            self.stop()
            raise

    def pids(self) -> dict[str, int]:
        return {process.command.name: process.pid for process in self._running}

    def check(self) -> None:
        """Raise ProcessError when a process has ended although nobody stopped it."""
        for process in self._running:
            code = process.poll()
            if code is not None:
                process.finish()
                raise ProcessError(
                    f'{process.command.name} ended by itself, {describe(code)}; its last lines '
                    f'(all of them in {process.log_file}):{process.last_lines()}'
                )

    def stop(self) -> dict[str, int]:
        """Stop all processes, the last started first, and return their exit codes by name."""
        codes = {}
        for process in reversed(self._running):
            codes[process.command.name] = self._stop(process)
            process.finish()
        self._running = []
        return codes

    def _stop(self, process: ManagedProcess) -> int:
        code = process.poll()
        for number, grace_s in zip(STOP_SIGNALS, (*self._grace_s, 10.0), strict=True):
            if code is not None:
                return code
            if number is not signal.SIGINT:
                self._show(f'[{process.command.name}] still runs, sending {number.name}')
            process.signal(number)
            code = process.wait(grace_s)
        if code is None:
            raise ProcessError(f'{process.command.name} (pid {process.pid}) survived SIGKILL')
        return code

    def __enter__(self) -> Runner:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def describe(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f'exit code {code}'
    try:
        return f'killed by {signal.Signals(-code).name}'
    except ValueError:
        return f'killed by signal {-code}'
