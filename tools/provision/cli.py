"""The order of the steps, and what a reader sees when one fails."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from provision.interpreter import Interpreter, choose, probe
from provision.report import Progress, StepError
from provision.ros import Ros, build_environment, choose_ros, clean_environment
from provision.shop import Shop
from provision.stamps import Stamps
from provision.steps import make_venv, plan
from provision.system import install, missing_packages

TOTAL_STEPS = 8
ROOT = Path(__file__).resolve().parents[2]
_BROKEN_CHECKOUT = 'Is the checkout whole and writable? `git status` and `ls -la` tell.'


def main() -> int:
    """Run the set-up; 0 when the environment is ready."""
    start_s = time.monotonic()
    try:
        with _only_one(ROOT):
            ros, worked = set_up(ROOT, os.environ)
    except StepError as error:
        print(_explain(error), file=sys.stderr)
        return 1
    except OSError as error:
        print(_explain(StepError(f'{error}.', _BROKEN_CHECKOUT)), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\nSet-up interrupted; run the same command again to go on.', file=sys.stderr)
        return 130
    word = 'ready' if worked else 'up to date'
    print(f'Set-up {word}: {ros} in .venv ({time.monotonic() - start_s:.1f} s)')
    return 0


def set_up(root: Path, environ: Mapping[str, str]) -> tuple[Ros, bool]:
    """Bring the checkout at ``root`` up to date; the ROS used, and whether anything was done."""
    if any(letter in str(root) for letter in ' \t"\';'):
        raise StepError(
            f'the path of this checkout holds a space or a quote: {root}',
            "Move it: colcon's set-up scripts do not work there.",
        )
    env = clean_environment(root, environ)
    stamps = Stamps(root / '.venv' / 'rmuscle-setup.json')
    ros = choose_ros(env, stamps.fact('ros'))
    build_env = build_environment(ros, root / '.venv', env)
    shop = Shop(root, ros, build_env, Progress(TOTAL_STEPS))

    fresh = _needs_venv(shop, stamps, env)
    interpreter = _interpreter(ros, env) if fresh else None
    worked = _provide_packages(shop, interpreter, env)
    if interpreter:
        with shop.progress.step(2, f'Environment .venv, Python {interpreter.version}'):
            make_venv(shop, interpreter)
            stamps = Stamps(stamps.path)
            stamps.finish('venv', str(root), ros=ros.identity, python=interpreter.path)
        worked = True
    for number, step in enumerate(plan(shop), start=3):
        if stamps.is_done(step.name, step.key) and step.present:
            continue
        cut = stamps.was_interrupted(step.name)
        stamps.begin(step.name, step.key)
        try:
            with shop.progress.step(number, step.title):
                step.run(cut)
        except StepError as error:
            if not error.cut_short:
                stamps.fail(step.name)
            raise
        stamps.finish(step.name, step.key)
        worked = True
    return ros, worked


def _provide_packages(shop: Shop, interpreter: Interpreter | None, env: Mapping[str, str]) -> bool:
    """Install what the distribution lacks; whether anything was."""
    missing = missing_packages(interpreter, env)
    if not missing:
        return False
    packages = ' '.join(name for item in missing for name in item.packages)
    with shop.progress.step(1, f'Packages {packages}'):
        install(missing, shop.log('packages'), shop.progress)
        again = probe(interpreter.path, env) if interpreter else None
        left = missing_packages(again, env)
        if left:
            raise StepError(
                f'still missing after apt-get: {", ".join(item.what for item in left)}.',
                f'Is it in PATH? PATH is {env.get("PATH")}',
                log=shop.log('packages'),
            )
    return True


def _needs_venv(shop: Shop, stamps: Stamps, env: Mapping[str, str]) -> bool:
    """True if there is no environment, or one for another place, ROS or Python."""
    if not stamps.is_done('venv', str(shop.root)) or not shop.python.exists():
        return True
    if stamps.fact('ros') != shop.ros.identity:
        print(f'.venv was made for {stamps.fact("ros")}; starting over for {shop.ros}.')
        return True
    wish = env.get('PYTHON')
    return bool(wish) and _interpreter(shop.ros, env).path != stamps.fact('python')


def _interpreter(ros: Ros, env: Mapping[str, str]) -> Interpreter:
    return ros.python or choose(env.get('PYTHON'), env.get('PATH', os.defpath))


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Hold the lock that keeps two set-ups of one checkout apart."""
    try:
        lock = (root / '.setup.lock').open('w')
    except OSError as error:
        raise StepError(
            f'{root} cannot be written: {error.strerror}.',
            'Make the checkout writable for your user, or use one that is.',
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print('Another set-up of this checkout is running; waiting for it.', flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _explain(error: StepError) -> str:
    where = f' in step {error.step}' if error.step else ''
    lines = ['', f'Set-up stopped{where}: {error.why}']
    lines += [f'    | {line}' for line in error.tail]
    if error.log:
        lines.append(f'Log: {os.path.relpath(error.log)}')
    lines.append(f'What to do: {error.todo}')
    return '\n'.join(lines)
