"""The import rule of ``rmuscle_ros/__init__.py``, over every module."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmuscle_ros

PACKAGE = Path(rmuscle_ros.__file__).resolve().parent
# An overlay built without symlinks holds the generated messages as well.
MODULES = sorted(
    path for path in PACKAGE.rglob('*.py') if path.relative_to(PACKAGE).parts[0] != 'msg'
)
# A part may import those of the rows below its own.
LEVELS = (
    ('__main__',),
    ('cli',),
    ('ros',),
    ('eval', 'bench', 'train'),
    ('rollout',),
    ('policy', 'sim'),
    ('planning', 'refresh'),
    ('engine', 'memory'),
    ('cache',),
    ('models',),
    ('nn',),
    ('kernels',),
    ('types', 'errors', 'config', 'presets', 'statistics', 'machine'),
)
LEVEL = {part: number for number, row in enumerate(LEVELS) for part in row}
LEAVES = LEVELS[-1]
# Third-party package -> the only part that may import it.
HOMES = {
    **dict.fromkeys(('triton',), 'kernels'),
    **dict.fromkeys(('mujoco', 'dm_control', 'gym_aloha'), 'sim'),
    **dict.fromkeys(('tensorrt', 'onnxruntime'), 'engine'),
    **dict.fromkeys(('rclpy', 'ament_index_python', 'cv_bridge', 'launch', 'launch_ros'), 'ros'),
    **dict.fromkeys(('builtin_interfaces', 'rcl_interfaces', 'rosgraph_msgs', 'std_srvs'), 'ros'),
    **dict.fromkeys(('rosidl_runtime_py', 'message_filters', 'tf2_ros'), 'ros'),
}
LIBRARY = (
    'policy',
    'planning',
    'refresh',
    'engine',
    'memory',
    'cache',
    'models',
    'nn',
    'kernels',
    *LEAVES,
)


def imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Absolute dotted names of everything ``tree`` imports, inside functions as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ''
            if node.level:
                parents = package.split('.')[: len(package.split('.')) - node.level + 1]
                base = '.'.join([*parents, base]).rstrip('.')
            yield from (f'{base}.{alias.name}' for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ''
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in ('import_module', '__import__'):
                yield str(node.args[0].value)


def violation(part: str, name: str) -> str | None:
    """Why the part ``part`` of the package must not import ``name``; None if it may."""
    top, *rest = name.split('.')
    if top != 'rmuscle_ros':
        home = HOMES.get(top, 'ros' if top.endswith('_msgs') else part)
        return None if home == part else f'{name} may be imported in {home}/ only'
    target = rest[0] if rest else ''
    if target in ('msg', 'srv', 'action'):
        return None if part == 'ros' else f'{name} may be imported in ros/ only'
    if target not in LEVEL or target == part or (part in LEAVES and target in LEAVES):
        return None
    if LEVEL[target] > LEVEL[part]:
        return None
    return f'{part} must not import {target}: it is not below it'


def part_of(path: Path) -> str:
    """The part of the package a module belongs to: ``ros`` for ``rmuscle_ros/ros/node.py``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix('.py')


def violations(path: Path, source: str) -> list[str]:
    part = part_of(path)
    if part == '__init__':
        part = 'types'
    package = '.'.join(('rmuscle_ros', *path.relative_to(PACKAGE).parent.parts))
    found = (violation(part, name) for name in imported_names(ast.parse(source), package))
    return [text for text in found if text]


@pytest.mark.parametrize('path', MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_only_what_lies_below_it(path: Path) -> None:
    assert part_of(path) in {*LEVEL, '__init__'}, 'a new part needs its place in the import rule'
    assert violations(path, path.read_text()) == []


@pytest.mark.parametrize(
    ('file', 'source'),
    [
        ('nn/mlp.py', 'from rmuscle_ros.models import tiny'),
        ('nn/mlp.py', 'from ..models import tiny'),
        ('nn/mlp.py', 'import rmuscle_ros.cache.dense'),
        ('engine/eager.py', 'from rmuscle_ros import memory'),
        ('cache/dense.py', 'def f():\n    from rmuscle_ros.engine import eager'),
        ('policy.py', 'import importlib\nimportlib.import_module("rmuscle_ros.ros.node")'),
        ('policy.py', 'import rclpy'),
        ('policy.py', 'from sensor_msgs.msg import Image'),
        ('eval/report.py', 'from rmuscle_ros.msg import ActionChunk'),
        ('ros/station.py', 'import mujoco'),
        ('sim/station.py', 'import triton.language as tl'),
        ('memory/library.py', 'import onnxruntime'),
        ('bench/call.py', 'from rmuscle_ros.eval import summary'),
        ('__init__.py', 'import rmuscle_ros.policy'),
    ],
)
def test_a_forbidden_import_is_found(file: str, source: str) -> None:
    assert len(violations(PACKAGE / file, source)) == 1


def test_the_command_line_imports_only_leaves_at_module_level() -> None:
    tree = ast.parse((PACKAGE / 'cli.py').read_text())
    top_level = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = list(imported_names(ast.Module(body=top_level, type_ignores=[]), 'rmuscle_ros'))
    ours = {name.split('.')[1] for name in names if name.startswith('rmuscle_ros.')}
    assert ours <= {*LEAVES, '__version__'}
    assert not {'torch', 'rclpy', 'numpy'} & {name.split('.')[0] for name in names}


BLOCKED_IMPORT = """
import importlib, sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {'rclpy', 'triton', 'mujoco', 'dm_control', 'gym_aloha'}:
            raise ModuleNotFoundError(f'{name} is blocked by the test', name=name)

sys.meta_path.insert(0, Blocker())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_the_library_imports_without_ros_triton_and_mujoco() -> None:
    paths = [path for path in MODULES if part_of(path) in LIBRARY and path.stem != 'triton']
    names = [
        '.'.join(('rmuscle_ros', *path.relative_to(PACKAGE).with_suffix('').parts))
        for path in paths
    ]
    assert len(names) > len(LEAVES)
    command = [
        sys.executable,
        '-c',
        BLOCKED_IMPORT,
        *(name.removesuffix('.__init__') for name in names),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
