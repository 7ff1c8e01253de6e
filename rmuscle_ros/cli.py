"""``rmuscle ...``: a table of subcommands, each imported only when it is called.

A subcommand is a module with ``add_arguments(parser)`` and ``run(args) -> int``, in the package
that does the work; its docstring's first line is its description, and ``EXAMPLES`` (optional) is
shown below its options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from rmuscle_ros import __version__
from rmuscle_ros.errors import RmuscleError, SetupError

USER_ERROR = 2
INTERRUPTED = 130


@dataclass(frozen=True)
class Command:
    """One leaf of the table: where it lives, and whether it must run inside the ROS overlay.

    ros_module: serves instead when ``--ros`` is among the words, inside the overlay.
    """

    module: str
    help: str
    needs_ros: bool = False
    ros_module: str = ''


@dataclass(frozen=True)
class Group:
    """Subcommands under a common word. ``default``: what runs when none of them is named."""

    help: str
    commands: Mapping[str, Command] = field(default_factory=dict)
    default: Command | None = None


COMMANDS: dict[str, Command | Group] = {
    'demo': Command(
        'rmuscle_ros.ros.demo.command',
        'move the simulated ALOHA through ROS 2 and report',
        needs_ros=True,
    ),
    'eval': Group(
        'measure the policy and its caches',
        {
            'separation': Command(
                'rmuscle_ros.eval.separation',
                'how well the fences tell right from wrong references',
            ),
            'characterise': Command(
                'rmuscle_ros.eval.characterise.command',
                "the paper's observations measured on the policy",
            ),
            'sweep': Command(
                'rmuscle_ros.eval.sweep.command',
                'one setting at a time around the defaults',
            ),
        },
        default=Command(
            'rmuscle_ros.eval.closed_loop_command',
            'success and latency on the station',
            ros_module='rmuscle_ros.ros.evaluation.command',
        ),
    ),
    'bench': Group(
        'timings, dense and cached side by side',
        {'call': Command('rmuscle_ros.bench.call', 'one call by stage')},
    ),
    'train': Group(
        'demonstrations, training and export of a policy',
        {
            'data': Command('rmuscle_ros.train.data_command', 'demonstrations of the expert'),
            'run': Command('rmuscle_ros.train.run_command', 'train a policy, or go on'),
            'export': Command('rmuscle_ros.train.export_command', 'checkpoint and model card'),
        },
    ),
    'library': Group(
        'reference libraries on disk',
        {'show': Command('rmuscle_ros.memory.listing', 'list the episodes and check their files')},
    ),
}
EXAMPLES = """examples:
  rmuscle demo
  rmuscle eval --task transfer_cube --episodes 50 --modes dense,rmuscle --json out/eval.json
  rmuscle bench call --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process' own); the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parser(words).parse_args(words)
        return int(args.run(args))
    except RmuscleError as error:
        print(f'rmuscle: error: {error}', file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print('rmuscle: interrupted', file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output, such as `head`, has gone; nothing more can be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for ``words``: only the leaf they name is imported and has its options."""
    parser = argparse.ArgumentParser(
        prog='rmuscle',
        description='Muscle memory for Vision-Language-Action policies.',
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'rmuscle_ros {__version__}')
    path = [word for word in words if not word.startswith('-')]
    _add_commands(parser, COMMANDS, path, ros='--ros' in words)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser,
    table: Mapping[str, Command | Group] | Mapping[str, Command],
    path: Sequence[str],
    ros: bool,
) -> None:
    choices = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    for name, entry in table.items():
        child = choices.add_parser(
            name, help=entry.help, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if not path or path[0] != name:
            continue
        if isinstance(entry, Command):
            _fill(child, entry, ros)
        elif entry.default and not (path[1:] and path[1] in entry.commands):
            _fill(child, entry.default, ros)
        else:
            child.description = entry.help
            _add_commands(child, entry.commands, path[1:], ros)


def _fill(parser: argparse.ArgumentParser, command: Command, ros: bool) -> None:
    """Import the command's module and let it add its options."""
    if ros and command.ros_module:
        command = replace(command, module=command.ros_module, needs_ros=True)
    if command.needs_ros:
        # Looked up here, not above: --help of the other commands must not need it.
        from rmuscle_ros.ros.overlay import ensure_ros

        ensure_ros()
    try:
        module = import_module(command.module)
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition('.')[0] == 'rmuscle_ros':
            raise
        raise SetupError(
            f'{command.module} needs {error.name}, which {sys.executable} does not have: run '
            '`make setup` in the checkout, or `pip install "rmuscle_ros[sim]"`'
        ) from error
    parser.description = (module.__doc__ or command.help).strip().splitlines()[0]
    parser.epilog = getattr(module, 'EXAMPLES', None)
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
