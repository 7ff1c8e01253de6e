"""The order of the set-up: what is done once, what again, and what a failure says."""

from __future__ import annotations

import fcntl
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provision import cli, system
from provision.interpreter import Interpreter
from provision.report import Progress, StepError, run_logged
from provision.ros import Ros
from provision.shop import Shop
from provision.stamps import Stamps, content_key, names_key
from provision.steps import Step

PYTHON = Interpreter('/usr/bin/python3.11', '3.11.2', '/include', True, True, None, [])


class Plan:
    """Two fake steps; records what ran, and whether it was told of an earlier interruption."""

    def __init__(self, root: Path) -> None:
        self.ran: list[tuple[str, bool]] = []
        self.keys = {'wheels': 'k1', 'build': 'k2'}
        self.product = root / 'product'
        self.fail: BaseException | None = None

    def __call__(self, shop: Shop) -> list[Step]:
        return [
            Step('wheels', 'Wheels', self.keys['wheels'], self._run('wheels')),
            Step('build', 'Build', self.keys['build'], self._run('build'), [self.product]),
        ]

    def _run(self, name: str) -> Callable[[bool], None]:
        def run(cut: bool) -> None:
            self.ran.append((name, cut))
            if self.fail:
                raise self.fail
            self.product.touch()

        return run

    def taken(self) -> list[tuple[str, bool]]:
        """What ran since the last call."""
        ran, self.ran = self.ran, []
        return ran


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    fake = Plan(tmp_path)

    def make_venv(shop: Shop, interpreter: Interpreter) -> None:
        fake.ran.append(('venv', False))
        shop.python.parent.mkdir(parents=True, exist_ok=True)
        shop.python.touch()

    monkeypatch.setattr(cli, 'plan', fake)
    monkeypatch.setattr(cli, 'make_venv', make_venv)
    monkeypatch.setattr(cli, 'choose', lambda wish, path: PYTHON)
    monkeypatch.setattr(cli, 'choose_ros', lambda env, old: Ros(env.get('ROS_DISTRO', 'jazzy')))
    monkeypatch.setattr(cli, 'missing_packages', lambda python, env: [])
    return fake


ALL = [('venv', False), ('wheels', False), ('build', False)]


def test_a_second_run_does_nothing(plan: Plan, tmp_path: Path) -> None:
    assert cli.set_up(tmp_path, {})[1]
    assert plan.taken() == ALL
    assert not cli.set_up(tmp_path, {})[1]
    assert plan.taken() == []


def test_only_what_changed_is_done_again(plan: Plan, tmp_path: Path) -> None:
    cli.set_up(tmp_path, {})
    plan.taken()
    plan.keys['build'] = 'k3'
    cli.set_up(tmp_path, {})
    assert plan.taken() == [('build', False)]
    plan.product.unlink()
    cli.set_up(tmp_path, {})
    assert plan.taken() == [('build', False)]


def test_another_ros_starts_over(plan: Plan, tmp_path: Path) -> None:
    cli.set_up(tmp_path, {})
    plan.taken()
    cli.set_up(tmp_path, {'ROS_DISTRO': 'kilted'})
    assert ('venv', False) in plan.taken()


def test_a_moved_checkout_starts_over(plan: Plan, tmp_path: Path) -> None:
    old = tmp_path / 'old'
    old.mkdir()
    cli.set_up(old, {})
    old.rename(tmp_path / 'new')
    plan.taken()
    cli.set_up(tmp_path / 'new', {})
    assert ('venv', False) in plan.taken()


def test_an_interrupted_step_is_told_so_next_time(plan: Plan, tmp_path: Path) -> None:
    plan.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        cli.set_up(tmp_path, {})
    plan.fail = None
    plan.taken()
    cli.set_up(tmp_path, {})
    assert plan.taken() == [('wheels', True), ('build', False)]


def test_a_step_that_failed_by_itself_is_just_done_again(plan: Plan, tmp_path: Path) -> None:
    plan.fail = StepError('pip exited with code 1.', 'Check the network.')
    with pytest.raises(StepError) as caught:
        cli.set_up(tmp_path, {})
    assert caught.value.step == '3 (Wheels)'
    plan.fail = None
    plan.taken()
    cli.set_up(tmp_path, {})
    assert plan.taken()[0] == ('wheels', False)


@pytest.mark.parametrize('content', ['', '{"steps": ', '[]'], ids=['empty', 'torn', 'other'])
def test_a_damaged_stamp_file_counts_as_nothing_done(tmp_path: Path, content: str) -> None:
    path = tmp_path / 'stamps.json'
    path.write_text(content)
    stamps = Stamps(path)
    assert not stamps.is_done('wheels', 'k')
    assert stamps.fact('ros') is None
    stamps.finish('wheels', 'k', ros='jazzy')
    assert Stamps(path).is_done('wheels', 'k')
    assert Stamps(path).fact('ros') == 'jazzy'


def test_keys_follow_contents_and_names(tmp_path: Path) -> None:
    file = tmp_path / 'a.py'
    file.write_text('1')
    content, names = content_key([file]), names_key([tmp_path])
    file.write_text('2')
    assert content_key([file]) != content
    assert names_key([tmp_path]) == names
    (tmp_path / 'b.pyc').touch()
    assert names_key([tmp_path]) == names
    (tmp_path / 'b.py').touch()
    assert names_key([tmp_path]) != names


def test_a_failed_command_shows_its_end_and_a_hint(tmp_path: Path) -> None:
    script = 'print("a\\n" * 50 + "OSError: No space left on device"); raise SystemExit(3)'
    log = tmp_path / 'log' / 'pip.log'
    with pytest.raises(StepError, match='exited with code 3') as caught:
        run_logged([sys.executable, '-c', script], log, Progress(1))
    assert len(caught.value.tail) <= 12
    assert caught.value.tail[-1] == 'OSError: No space left on device'
    assert 'disk space' in caught.value.todo
    assert not caught.value.cut_short
    assert log.read_text().count('\na') == 50


def test_a_killed_command_may_have_left_something_half_done(tmp_path: Path) -> None:
    script = f'import os; os.kill(os.getpid(), {int(signal.SIGKILL)})'
    with pytest.raises(StepError, match='killed by signal 9') as caught:
        run_logged([sys.executable, '-c', script], tmp_path / 'x.log', Progress(1))
    assert caught.value.cut_short


def test_the_explanation_has_step_reason_log_and_remedy(tmp_path: Path) -> None:
    error = StepError('pip exited with code 1.', 'Check it.', ['last line'], tmp_path / 'a.log')
    error.step = '4 (PyTorch 2.13.0)'
    text = cli._explain(error)
    expected = ('step 4 (PyTorch 2.13.0): pip exited', '| last line', 'a.log', 'do: Check it.')
    assert all(part in text for part in expected)


def test_missing_packages_without_root_give_the_exact_line(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, 'has_egl', lambda: False)
    monkeypatch.setattr(system, '_root_prefix', lambda: None)
    monkeypatch.setattr(system.shutil, 'which', lambda name, path=None: name == 'apt-get' or None)
    bare = Interpreter('/usr/bin/python3.12', '3.12.3', '/include', False, False, None, [])
    missing = system.missing_packages(bare, {})
    with pytest.raises(StepError) as caught:
        system.install(missing, tmp_path / 'x.log', Progress(1))
    assert caught.value.todo == (
        'sudo apt-get update && sudo apt-get install -y g++ make python3.12-venv python3.12-dev '
        'libegl1 libegl-mesa0 libgl1-mesa-dri libgles2'
    )


def test_a_checkout_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    absent = tmp_path / 'absent'
    with pytest.raises(StepError, match='cannot be written'), cli._only_one(absent):
        pass


def test_two_set_ups_do_not_run_at_once(tmp_path: Path) -> None:
    with (
        cli._only_one(tmp_path),
        (tmp_path / '.setup.lock').open('w') as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_folder_with_a_space_is_refused(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(StepError, match='holds a space'):
        cli.set_up(tmp_path / 'my robots', {})
