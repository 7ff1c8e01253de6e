"""Files that a measurement writes at its end."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import ConfigError

Result = dict[str, Any]


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


def publish(
    result: Result,
    json_path: Path | None,
    html_path: Path | None,
    page: Callable[[Result], str],
    table: Callable[[Result], str],
) -> None:
    """Write the result and its page where a path is given, then print its table.

    Files first: a closed pipe must not cost them. ``page`` runs only where there is a path.
    """
    if json_path is not None:
        json_path.write_text(json.dumps(result, indent=1, allow_nan=False) + '\n')
    if html_path is not None:
        html_path.write_text(page(result), encoding='utf-8')
    print(table(result))
    for path in filter(None, (json_path, html_path)):
        print(f'wrote {path}')
