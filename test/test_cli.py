"""The command line: lazy subcommands, help without heavy imports, errors as one line."""

from __future__ import annotations

import argparse
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from rmuscle_ros import __version__, cli
from rmuscle_ros.errors import ConfigError, SetupError
from rmuscle_ros.ros import overlay

HEAVY = ('torch', 'rclpy', 'mujoco', 'matplotlib')


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes ``rmuscle fake`` run the given function."""

    def _register(run: Callable[[argparse.Namespace], int], **command: bool) -> None:
        module = types.ModuleType('fake_subcommand', 'Does something.\n\nMore.')
        module.add_arguments = lambda parser: parser.add_argument('--speed', type=int)
        module.run = run
        module.EXAMPLES = 'examples:\n  rmuscle fake --speed 3'
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, 'fake', cli.Command(module.__name__, 'fake', **command))

    return _register


def leaves() -> Iterator[tuple[str, cli.Command]]:
    for name, entry in cli.COMMANDS.items():
        if isinstance(entry, cli.Command):
            yield name, entry
        else:
            yield from ((f'{name} {word}', command) for word, command in entry.commands.items())
            if entry.default:
                yield f'{name} (default)', entry.default


@pytest.mark.parametrize('words', ['--help', '--version', 'eval --help', 'bench --help'])
def test_help_imports_nothing_heavy(words: str) -> None:
    script = (
        'import sys; from rmuscle_ros.cli import main\n'
        'try: main(sys.argv[1:])\n'
        'except SystemExit as end: assert end.code == 0\n'
        f'assert not set({HEAVY}) & set(sys.modules), sorted(set({HEAVY}) & set(sys.modules))'
    )
    command = [sys.executable, '-c', script, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_help_lists_every_command_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(['--help'])
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)
    assert 'examples:\n  rmuscle demo' in text


@pytest.mark.parametrize('command', [pytest.param(c, id=n) for n, c in leaves()])
def test_registered_modules_exist(command: cli.Command) -> None:
    assert find_spec(command.module) is not None


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(['--version'])
    assert capsys.readouterr().out == f'rmuscle_ros {__version__}\n'


def test_arguments_reach_the_subcommand_and_its_result_the_shell(register) -> None:
    register(lambda args: args.speed)
    assert cli.main(['fake', '--speed', '7']) == 7


def test_help_of_a_subcommand_has_its_description_and_examples(register, capsys) -> None:
    register(lambda args: 0)
    with pytest.raises(SystemExit):
        cli.main(['fake', '--help'])
    text = capsys.readouterr().out
    assert 'Does something.' in text
    assert 'rmuscle fake --speed 3' in text


def test_an_expected_error_is_one_line_and_exit_code_2(register, capsys) -> None:
    def run(args: argparse.Namespace) -> int:
        raise ConfigError('cache.rho_p: found 2, expected a value from 0 to 1')

    register(run)
    assert cli.main(['fake']) == 2
    captured = capsys.readouterr()
    expected = 'rmuscle: error: cache.rho_p: found 2, expected a value from 0 to 1\n'
    assert (captured.out, captured.err) == ('', expected)


def test_a_bug_keeps_its_traceback(register) -> None:
    def run(args: argparse.Namespace) -> int:
        raise KeyError('bug')

    register(run)
    with pytest.raises(KeyError):
        cli.main(['fake'])


def test_an_interrupt_is_exit_code_130(register, capsys) -> None:
    def run(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    register(run)
    assert cli.main(['fake']) == 130
    assert 'Traceback' not in capsys.readouterr().err


def test_a_command_that_needs_ros_asks_for_the_overlay(register, monkeypatch, capsys) -> None:
    def refuse() -> None:
        raise SetupError('no built overlay: run `make setup`')

    register(lambda args: 0, needs_ros=True)
    monkeypatch.setattr(overlay, 'ensure_ros', refuse)
    assert cli.main(['fake']) == 2
    assert 'make setup' in capsys.readouterr().err


def test_a_missing_dependency_is_named(monkeypatch, capsys) -> None:
    command = cli.Command('module_that_is_not_there', 'broken')
    monkeypatch.setitem(cli.COMMANDS, 'broken', command)
    assert cli.main(['broken']) == 2
    assert 'needs module_that_is_not_there, which' in capsys.readouterr().err


def test_a_module_of_ours_that_is_missing_is_a_bug(monkeypatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, 'broken', cli.Command('rmuscle_ros.absent', 'broken'))
    with pytest.raises(ModuleNotFoundError):
        cli.main(['broken'])


def test_an_unknown_command_lists_the_known_ones(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(['bogus'])
    assert end.value.code == 2
    assert "invalid choice: 'bogus'" in capsys.readouterr().err


def test_a_group_without_a_known_word_runs_its_default() -> None:
    parser = cli._parser(['eval', '--task', 'lift_cube', '--episodes', '3'])
    args = parser.parse_args(['eval', '--task', 'lift_cube', '--episodes', '3'])
    assert (args.task, args.episodes) == ('lift_cube', 3)
    assert args.run.__module__ == cli.COMMANDS['eval'].default.module
