"""What must be the same for a finished measurement to stand for a new one."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import rmuscle_ros
from rmuscle_ros.eval.workbench import REFERENCE_SEED, Workbench
from rmuscle_ros.machine import PACKAGES, machine, versions
from rmuscle_ros.rollout import EXECUTION_HORIZON

# The parts of this package that decide what a call computes and how long it takes.
SOURCES = ('cache', 'engine', 'kernels', 'memory', 'models', 'nn', 'sim')
MODULES = (
    'planning',
    'policy',
    'rollout',
    'eval.closed_loop',
    'eval.oracle',
    'eval.workbench',
    'eval.sweep.bench',
    'eval.sweep.reuse',
)


def circumstances(bench: Workbench, task: str, threads: int) -> dict[str, Any]:
    """Everything but the settings and the scene."""
    found = versions()
    return {
        'task': task,
        'fingerprint': bench.info.fingerprint,
        'first_reference_scene': REFERENCE_SEED,
        'execution_horizon': EXECUTION_HORIZON,
        'threads': threads,
        'cpu': machine()['cpu'],
        'device': bench.info.device,
        'versions': {name: found[name] for name in ('rmuscle_ros', 'python', *PACKAGES)},
        'source': source_digest(),
    }


def digest(value: Any) -> str:
    """Of anything that JSON can hold; 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def source_digest() -> str:
    """Of the code that is measured: a version does not change with every edit."""
    root = Path(rmuscle_ros.__file__).parent
    paths = [path for part in SOURCES for path in (root / part).rglob('*.py')]
    paths += [root / f'{name.replace(".", "/")}.py' for name in MODULES]
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path.relative_to(root)).encode() + b'\0' + path.read_bytes())
    return total.hexdigest()[:16]
