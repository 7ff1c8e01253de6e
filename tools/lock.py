"""Resolve ``requirements/*.in`` into ``*.lock`` files with exact versions: ``make lock``.

The groups are resolved in order, each under the pins of those before it, and a lock holds only
what earlier locks do not. The ROS groups exclude each other and only see the build group. Run
with the oldest supported Python; ``--check`` says whether another Python can install the pins.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / 'requirements'
# Each group with the groups whose pins it must respect.
GROUPS = {
    'build': (),
    'ros-jazzy': ('build',),
    'ros-kilted': ('build',),
    'torch': ('build',),
    'app': ('build', 'torch'),
    'dev': ('build', 'torch', 'app'),
}
# Plugins that colcon-core asks for and uses in `colcon test` only; here they would change pytest.
DROPPED = {'coverage', 'pytest-cov', 'pytest-repeat', 'pytest-rerunfailures'}
# CUDA libraries of PyTorch's GPU build: pinned by its own metadata, absent from the CPU build.
GPU_ONLY = re.compile(r'^(nvidia-|cuda-|triton$)')


def canonical(name: str) -> str:
    """The normalised distribution name (PEP 503)."""
    return re.sub(r'[-_.]+', '-', name).lower()


def resolve(group: str, python: str) -> dict[str, str]:
    """Everything ``group`` needs as ``{name: version}``, earlier groups included."""
    command = [python, '-m', 'pip', 'install', '--dry-run', '--quiet', '--ignore-installed']
    command += ['--report', '-', '-r', str(REQUIREMENTS / f'{group}.in')]
    for earlier in GROUPS[group]:
        command += ['-c', str(REQUIREMENTS / f'{earlier}.lock')]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f'lock: pip cannot resolve requirements/{group}.in:\n{done.stderr}')
    items = [item['metadata'] for item in json.loads(done.stdout)['install']]
    # A local version such as +cpu names a build of the same release.
    return {canonical(item['name']): item['version'].split('+')[0] for item in items}


def read_pins(group: str) -> dict[str, str]:
    """The pins of a lock file as ``{name: version}``."""
    lines = (REQUIREMENTS / f'{group}.lock').read_text().splitlines()
    return dict(line.split('==') for line in lines if line and not line.startswith('#'))


def write_lock(group: str, python: str) -> None:
    """Resolve ``group`` and write its lock file."""
    taken = {name for earlier in GROUPS[group] for name in read_pins(earlier)}
    pins = {
        name: version
        for name, version in resolve(group, python).items()
        if name not in taken | DROPPED and not GPU_ONLY.match(name)
    }
    header = f'# Written by `make lock` from {group}.in; edit that file instead.\n'
    body = ''.join(f'{name}=={version}\n' for name, version in sorted(pins.items()))
    (REQUIREMENTS / f'{group}.lock').write_text(header + body)
    print(f'{group}.lock: {len(pins)} packages')


def check_lock(group: str, python: str) -> None:
    """Fail unless ``python`` can install every pin of ``group``."""
    command = [python, '-m', 'pip', 'install', '--dry-run', '--quiet', '--ignore-installed']
    command += ['--no-deps', '-r', str(REQUIREMENTS / f'{group}.lock')]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f'lock: {python} cannot install {group}.lock:\n{done.stderr}')
    print(f'{group}.lock: fine')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--python', default=sys.executable, help='interpreter to resolve for')
    parser.add_argument('--check', action='store_true', help='check the locks, write nothing')
    parser.add_argument('groups', nargs='*', help=f'of {", ".join(GROUPS)}; default: all')
    options = parser.parse_args()
    for group in options.groups or GROUPS:
        (check_lock if options.check else write_lock)(group, options.python)


if __name__ == '__main__':
    main()
