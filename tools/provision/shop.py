"""What every step works with: paths, variables, and pip with the lock files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.report import Progress, run_logged
from provision.ros import Ros


@dataclass(frozen=True)
class Shop:
    """Where and with what the steps work. ``env`` is for pip, CMake and colcon."""

    root: Path
    ros: Ros
    env: Mapping[str, str]
    progress: Progress

    @property
    def venv(self) -> Path:
        return self.root / '.venv'

    @property
    def python(self) -> Path:
        return self.venv / 'bin' / 'python'

    def log(self, step: str) -> Path:
        return self.root / 'log' / 'setup' / f'{step}.log'

    def lock(self, name: str) -> Path:
        return self.root / 'requirements' / f'{name}.lock'

    def pin(self, name: str, package: str) -> str:
        """The version that the lock file ``name`` gives ``package``."""
        lines = self.lock(name).read_text().splitlines()
        return next(line.split('==')[1] for line in lines if line.startswith(f'{package}=='))

    def execute(self, step: str, *command: str | Path) -> None:
        """Run ``command`` in the checkout, logged under ``step``."""
        run_logged(command, self.log(step), self.progress, env=self.env, cwd=self.root)

    def pip(self, step: str, *arguments: str | Path) -> None:
        """``pip install`` into the environment."""
        quiet = ('--no-input', '--disable-pip-version-check', '--progress-bar', 'off')
        self.execute(step, self.python, '-m', 'pip', 'install', *quiet, *arguments)

    def install_locks(
        self, step: str, locks: Sequence[str], cut: bool, *, dependencies: bool = False
    ) -> None:
        """Install the pins of ``locks``; all of them afresh if an earlier run was cut short."""
        arguments: list[str | Path] = [] if dependencies else ['--no-deps']
        if cut:
            arguments.append('--force-reinstall')
        for name in locks:
            arguments += ['-r', self._fitting_lock(name)]
        self.pip(step, *arguments)

    def _fitting_lock(self, name: str) -> Path:
        """The lock file; under a sourced ROS a copy without what that ROS is built against."""
        lock = self.lock(name)
        if self.ros.python is None:
            return lock
        provided = self.ros.python.provides
        lines = lock.read_text().splitlines()
        kept = [line for line in lines if line.split('==')[0] not in provided]
        copy = self.log(name).with_suffix('.lock')
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text('\n'.join(kept) + '\n')
        return copy
