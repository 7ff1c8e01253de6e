"""Which processes make a running system, for ``launch/aloha.launch.py`` and for the runner alike.

Imports neither rclpy nor launch, so that both can read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.presets import PRESETS

PACKAGE = 'rmuscle_ros'
LAUNCH_FILE = 'aloha.launch.py'
LOG_LEVELS = ('debug', 'info', 'warn', 'error', 'fatal')
Value = bool | int | float | str | list[int]


@dataclass(frozen=True)
class NodeProcess:
    """One node in its own process.

    parameter_files, parameters: in the order of rising precedence.
    lifecycle: whether it must be configured and activated after it has started.
    """

    executable: str
    name: str
    package: str = PACKAGE
    namespace: str = ''
    parameter_files: tuple[Path, ...] = ()
    parameters: Mapping[str, Value] = field(default_factory=dict)
    remappings: tuple[tuple[str, str], ...] = ()
    lifecycle: bool = False
    log_level: str = 'info'

    @property
    def full_name(self) -> str:
        """The node's name with its namespace, such as ``/left/rmuscle``."""
        return '/'.join(('', *(part for part in self.namespace.split('/') if part), self.name))

    def arguments(self) -> list[str]:
        """Command-line arguments that give a node started by hand this description."""
        found = ['--ros-args', '-r', f'__node:={self.name}']
        if self.namespace:
            found += ['-r', f'__ns:=/{self.namespace.strip("/")}']
        for path in self.parameter_files:
            found += ['--params-file', str(path)]
        for name, value in self.parameters.items():
            found += ['-p', f'{name}:={json.dumps(value)}']
        for source, target in self.remappings:
            found += ['-r', f'{source}:={target}']
        return [*found, '--log-level', self.log_level]


@dataclass(frozen=True)
class Argument:
    """A launch argument; ``default`` is text, as launch has it."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


def arguments(share: Path) -> tuple[Argument, ...]:
    """The launch arguments; ``share`` is the package's share directory with its ``config``."""
    flags = ('true', 'false')
    config = share / 'config'
    return (
        Argument('sim', 'true', 'Start the simulated station; false: a robot is there.', flags),
        Argument('params_file', str(config / 'aloha.yaml'), 'Parameters of the node rmuscle.'),
        Argument(
            'preset',
            'default',
            'Settings of the caches on top of params_file; default: none.',
            tuple(PRESETS),
        ),
        Argument(
            'station_params_file',
            str(config / 'station.yaml'),
            'Parameters of the simulated station aloha_station.',
        ),
        Argument('namespace', '', 'Namespace of all nodes, such as left_cell; empty: none.'),
        Argument(
            'use_sim_time',
            'false',
            'Take the time from /clock; a simulated station then publishes it, in its own time.',
            flags,
        ),
        Argument('log_level', 'info', 'Least severity that is logged.', LOG_LEVELS),
        Argument('autostart', 'true', 'Configure and activate the lifecycle nodes.', flags),
    )


@dataclass(frozen=True)
class Deployment:
    """The ALOHA system: the node rmuscle and, with ``sim``, the simulated station."""

    params_file: Path
    station_params_file: Path
    preset: str = 'default'
    sim: bool = True
    namespace: str = ''
    use_sim_time: bool = False
    log_level: str = 'info'
    autostart: bool = True

    def __post_init__(self) -> None:
        needed = {'params_file': self.params_file}
        if self.sim:
            needed['station_params_file'] = self.station_params_file
        for name, path in needed.items():
            if not Path(path).is_file():
                raise ConfigError(f'{name}: no file {path}; give the path of a parameter YAML')
        choices = {'preset': tuple(PRESETS), 'log_level': LOG_LEVELS}
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ConfigError(f'{name}: found {value!r}, expected one of {", ".join(allowed)}')

    @classmethod
    def from_arguments(cls, values: Mapping[str, str]) -> Deployment:
        """From the text values of all launch arguments."""
        return cls(
            params_file=Path(values['params_file']),
            station_params_file=Path(values['station_params_file']),
            preset=values['preset'],
            sim=_flag('sim', values['sim']),
            namespace=values['namespace'],
            use_sim_time=_flag('use_sim_time', values['use_sim_time']),
            log_level=values['log_level'],
            autostart=_flag('autostart', values['autostart']),
        )

    def launch_arguments(self) -> list[str]:
        """``name:=value`` for ``ros2 launch rmuscle_ros aloha.launch.py``, without empty ones."""
        values = {
            'sim': _text(self.sim),
            'params_file': str(self.params_file),
            'station_params_file': str(self.station_params_file),
            'preset': self.preset,
            'namespace': self.namespace,
            'use_sim_time': _text(self.use_sim_time),
            'log_level': self.log_level,
            'autostart': _text(self.autostart),
        }
        return [f'{name}:={value}' for name, value in values.items() if value]

    def station(self) -> NodeProcess:
        return NodeProcess(
            executable='aloha_station',
            name='aloha_station',
            namespace=self.namespace,
            parameter_files=(self.station_params_file,),
            parameters={'publish_clock': True} if self.use_sim_time else {},
            log_level=self.log_level,
        )

    def node(self) -> NodeProcess:
        return NodeProcess(
            executable='rmuscle_node',
            name='rmuscle',
            namespace=self.namespace,
            parameter_files=(self.params_file,),
            parameters=self._preset_parameters()
            | ({'use_sim_time': True} if self.use_sim_time else {}),
            lifecycle=True,
            log_level=self.log_level,
        )

    def _preset_parameters(self) -> dict[str, Value]:
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in PRESETS[self.preset].items()
        }

    def processes(self) -> tuple[NodeProcess, ...]:
        """In starting order; they are stopped in the reverse one, so that a hold arrives."""
        return (self.station(), self.node()) if self.sim else (self.node(),)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ('true', 'false'):
        raise ConfigError(f'{name}: found {text!r}, expected true or false')
    return text.lower() == 'true'


def _text(flag: bool) -> str:
    return 'true' if flag else 'false'
