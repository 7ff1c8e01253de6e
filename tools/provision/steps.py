"""The steps of the set-up: what each depends on, and what it does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.interpreter import Interpreter
from provision.report import StepError
from provision.shop import Shop
from provision.stamps import content_key, names_key

_BUILT = ('build/rmuscle_ros', 'install/setup.bash', 'install/rmuscle_ros/share/rmuscle_ros')


@dataclass(frozen=True)
class Step:
    """One step: done once for each ``key``, and again when its product is not ``present``.

    run gets True if an earlier run of the step was cut short.
    """

    name: str
    title: str
    key: str
    run: Callable[[bool], None]
    product: Sequence[Path] = ()

    @property
    def present(self) -> bool:
        return all(path.exists() for path in self.product)


def make_venv(shop: Shop, interpreter: Interpreter) -> None:
    """A new, empty environment; what was built against an old one goes with it."""
    for name in ('.venv', 'build', 'install'):
        path = shop.root / name
        if path.exists():
            shutil.rmtree(path)
    site = ['--system-site-packages'] if shop.ros.sourced else []
    shop.execute('environment', interpreter.path, '-m', 'venv', *site, shop.venv)


def plan(shop: Shop) -> list[Step]:
    """The steps once the environment exists, in order."""
    base_locks = ['build'] if shop.ros.sourced else ['build', f'ros-{shop.ros.distro}']
    base_title = 'Build tools' if shop.ros.sourced else f'{shop.ros} and build tools'
    base_key = _locks_key(shop, base_locks)
    torch_key = _locks_key(shop, ['torch'])
    app_key = _locks_key(shop, ['app', 'dev'])
    own_key = content_key(
        shop.root / name for name in ('setup.py', 'pyproject.toml', 'rmuscle_ros/__init__.py')
    )
    interfaces_key = _interfaces_key(shop, base_key)
    folders = [shop.root / name for name in ('rmuscle_ros', 'scripts', 'launch', 'config')]
    build_key = content_key((), interfaces_key, names_key(folders))
    check_key = content_key((), interfaces_key, torch_key, app_key, own_key)
    bin_folder = shop.venv / 'bin'
    return [
        Step(
            'ros',
            base_title,
            base_key,
            lambda cut: _install_base(shop, base_locks, cut),
            [bin_folder / 'colcon'],
        ),
        Step(
            'torch',
            f'PyTorch {shop.pin("torch", "torch")}',
            torch_key,
            # With dependencies: the CUDA build pins its libraries in its own metadata.
            lambda cut: shop.install_locks('torch', ['torch'], cut, dependencies=True),
        ),
        Step(
            'app',
            'MuJoCo, gym-aloha, test tools',
            app_key,
            lambda cut: shop.install_locks('app', ['app', 'dev'], cut),
            [bin_folder / 'pytest'] if not shop.ros.sourced else [],
        ),
        Step(
            'own',
            'rmuscle command',
            own_key,
            lambda _: _install_own(shop),
            [bin_folder / 'rmuscle'],
        ),
        Step(
            'build',
            'Messages and nodes (colcon build)',
            build_key,
            lambda cut: _build(shop, cut),
            [shop.root / path for path in _BUILT],
        ),
        Step('check', 'Check: imports, rendering', check_key, lambda _: _check(shop)),
    ]


def _install_base(shop: Shop, locks: Sequence[str], cut: bool) -> None:
    shop.install_locks('ros', locks, cut)
    if not shop.ros.sourced:
        script = shop.root / 'tools' / 'provision' / 'headers.py'
        shop.execute('ros', shop.python, script)


def _install_own(shop: Shop) -> None:
    shop.pip('own', '--no-deps', '--no-build-isolation', '--editable', shop.root)


def _build(shop: Shop, cut: bool) -> None:
    if cut:
        _remove_build(shop)
    try:
        shop.execute(
            'build',
            *(shop.venv / 'bin' / 'colcon', '--log-base', 'log/colcon', 'build', '--paths', '.'),
            *('--symlink-install', '--cmake-args', f'-DPython3_EXECUTABLE={shop.python}'),
            '-DBUILD_TESTING=OFF',
        )
    except StepError:
        # Whatever it stumbled over in the build folders must not meet the next try.
        _remove_build(shop)
        raise
    # A source file that is gone leaves its symlink behind.
    for path in (shop.root / 'install').rglob('*'):
        if path.is_symlink() and not path.exists():
            path.unlink()


def _remove_build(shop: Shop) -> None:
    for name in ('build', 'install'):
        shutil.rmtree(shop.root / name, ignore_errors=True)


def _check(shop: Shop) -> None:
    script = shop.root / 'tools' / 'provision' / 'check.py'
    try:
        shop.execute('check', shop.python, '-m', 'rmuscle_ros.ros.overlay', shop.python, script)
    except StepError as error:
        error.why = error.tail[-1] if error.tail else error.why
        error.todo = (
            'Run the same command again; if it fails the same way, `make clean` and start over. '
            'If rendering failed, the log names the EGL error: a GPU driver may be half installed.'
        )
        raise


def _locks_key(shop: Shop, names: Sequence[str]) -> str:
    return content_key([shop.lock(name) for name in names], shop.ros.identity)


def _interfaces_key(shop: Shop, base_key: str) -> str:
    sources = [shop.root / 'CMakeLists.txt', shop.root / 'package.xml']
    sources += (shop.root / 'msg').glob('*.msg')
    return content_key(sources, base_key)
