"""What has been done already, keyed by the content it was done from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Stamps:
    """Keys of finished steps and facts about the environment, kept in one JSON file.

    A step that has begun and not finished stays marked, so that the next run knows it was
    interrupted and repairs it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data: dict[str, Any] = {}
        try:
            loaded = json.loads(path.read_text())
        except (OSError, ValueError):
            # No file, or one torn by a crash: nothing counts as done.
            return
        if isinstance(loaded, dict):
            self._data = loaded

    def fact(self, name: str) -> str | None:
        """A remembered fact, such as the interpreter the environment was made with."""
        value = self._data.get('facts', {}).get(name)
        return value if isinstance(value, str) else None

    def is_done(self, step: str, key: str) -> bool:
        """True if ``step`` last finished with this very ``key``."""
        return self._steps().get(step) == {'key': key, 'done': True}

    def was_interrupted(self, step: str) -> bool:
        """True if ``step`` began and never finished."""
        return self._steps().get(step, {}).get('done') is False

    def begin(self, step: str, key: str) -> None:
        """Mark ``step`` as running."""
        self._steps()[step] = {'key': key, 'done': False}
        self._save()

    def fail(self, step: str) -> None:
        """Forget ``step``: it ended by itself, without success, and left nothing half done."""
        self._steps().pop(step, None)
        self._save()

    def finish(self, step: str, key: str, **facts: str) -> None:
        """Mark ``step`` as done and remember ``facts``."""
        self._steps()[step] = {'key': key, 'done': True}
        self._data.setdefault('facts', {}).update(facts)
        self._save()

    def _steps(self) -> dict[str, Any]:
        steps: dict[str, Any] = self._data.setdefault('steps', {})
        return steps

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix('.tmp')
        fresh.write_text(json.dumps(self._data, indent=2))
        os.replace(fresh, self.path)


def content_key(files: Iterable[Path], *more: str) -> str:
    """A digest of the files' contents and of ``more``."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in more:
        digest.update(text.encode() + b'\0')
    return digest.hexdigest()[:20]


def names_key(folders: Iterable[Path]) -> str:
    """A digest of the names of the files below ``folders``: their contents are symlinked."""
    names = [
        str(path)
        for folder in folders
        for path in sorted(folder.rglob('*'))
        if path.is_file() and path.suffix != '.pyc'
    ]
    return content_key((), *names)
