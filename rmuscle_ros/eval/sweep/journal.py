"""Finished measurements, one JSON line each, so that an interrupted sweep can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.sweep.identity import digest

LINE_START = '{"key": "'


class Journal:
    """Appended to, never rewritten; lines of other settings, software or scenes stay unused."""

    def __init__(self, path: Path | None) -> None:
        """path: the file, created when there is none; None keeps nothing.

        ConfigError for a line that is none, except a last one cut short by a kill.
        """
        self._path = path
        self._values: dict[str, Any] = {}
        if path is not None and path.exists():
            self._read(path)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, about: Mapping[str, Any]) -> Any:
        """What was measured in exactly these circumstances; None when nothing was."""
        return self._values.get(digest(about))

    def put(self, about: Mapping[str, Any], label: str, value: Any) -> None:
        """Keep ``value`` (JSON) of the circumstances ``about``; label: for a human reader."""
        key = digest(about)
        self._values[key] = value
        if self._path is not None:
            line = json.dumps({'key': key, 'label': label, 'value': value})
            with self._path.open('a', encoding='utf-8') as file:
                file.write(line + '\n')

    def _read(self, path: Path) -> None:
        try:
            # Not read_text: it changes line ends, and with them what a byte's place is.
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f'{path}: cannot be read ({error}), expected the journal of an earlier sweep; '
                'move it away to begin anew'
            ) from error
        *lines, cut = text.split('\n')
        # What a kill leaves of a line; anything else is not ours and must not be removed.
        ours = cut.startswith(LINE_START) or LINE_START.startswith(cut)
        if not ours:
            lines.append(cut)
        for number, line in enumerate(lines, start=1):
            try:
                found = json.loads(line)
                self._values[found['key']] = found['value']
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f'{path}, line {number}: found {line[:60]!r}, expected a measurement of an '
                    'earlier sweep; remove the line, or move the file away to begin anew'
                ) from error
        if ours and cut:
            # What follows must not be appended to it.
            os.truncate(path, len(text.removesuffix(cut).encode()))
