"""Lists a reference library on disk, checking every file's digest."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import LibraryError
from rmuscle_ros.memory.entry import Episode
from rmuscle_ros.memory.library import Library

EXAMPLES = """examples:
  rmuscle library show ~/rmuscle_library
  rmuscle library show ~/rmuscle_library --json out/library.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('directory', type=Path, help='what library.directory names')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the listing here too')


def run(args: argparse.Namespace) -> int:
    directory = args.directory.expanduser()
    if not directory.is_dir():
        raise LibraryError(f'{directory}: not a directory; give what library.directory names')
    rows = [describe(episode) for episode in Library.load(directory)]
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({'schema': 1, 'episodes': rows}, indent=2) + '\n')
    print(f'{"episode":24}{"calls":>6}{"success":>9}{"KiB":>9}  model / instruction')
    for row in rows:
        print(
            f'{row["id"]:24}{row["calls"]:6}{row["success"]!s:>9}{row["bytes"] / 1024:9.0f}  '
            f'{row["fingerprint"]} / {row["instruction"]}'
        )
    print(f'{len(rows)} episodes, all files intact')
    return 0


def describe(episode: Episode) -> dict[str, Any]:
    """One episode in plain values. bytes: its pictures and packed masks, the bulk of it."""
    first = episode.entries[0]
    return {
        'id': episode.id,
        'calls': len(episode.entries),
        'success': episode.success,
        'instruction': episode.task.instruction,
        'fingerprint': episode.task.fingerprint,
        'cameras': list(episode.task.cameras),
        'anchors': list(first.masks.anchors),
        'denoise_steps': first.masks.steps,
        'bytes': sum(e.inputs.images.nbytes + e.masks.pack().nbytes for e in episode.entries),
    }
