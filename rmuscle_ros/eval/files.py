"""Files that a measurement writes at its end."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rmuscle_ros.errors import ConfigError


def check_writable(path: Path) -> None:
    """Raise ConfigError unless the file can be written; before the run, not after it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ConfigError(
            f'{path}: cannot be written ({error.strerror}); name another file'
        ) from error
    if path.is_dir():
        raise ConfigError(f'{path}: found a directory, expected the name of a file')


def write(path: Path, content: str) -> None:
    path.write_text(content, encoding='utf-8')
    print(f'wrote {path}')
