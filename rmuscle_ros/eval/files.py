"""Files that a measurement writes at its end."""

from __future__ import annotations

import argparse
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


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """--json and --html of a command whose page goes beside its JSON."""
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the result here too')
    parser.add_argument(
        '--html', type=Path, metavar='FILE', help='write the page here (default: beside --json)'
    )


def page_beside(json_path: Path | None, html_path: Path | None) -> Path | None:
    """Where the page goes: to ``html_path``, else beside the JSON file, if there is one."""
    if html_path is not None or json_path is None:
        return html_path
    if not json_path.name:
        raise ConfigError(f'--json: found {str(json_path)!r}, expected the name of a file')
    return json_path.with_suffix('.html')


def check_outputs(**paths: Path | None) -> None:
    """Raise ConfigError unless all files can be written and no two of them are the same.

    paths: what each is for -> its path; None is left out.
    """
    seen: dict[Path, str] = {}
    for purpose, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), purpose)
        if other != purpose:
            raise ConfigError(
                f'{path}: found the same file for {other} and {purpose}, expected different ones; '
                'name another --json or --html'
            )
        check_writable(path)


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
