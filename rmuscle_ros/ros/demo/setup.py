"""What the demo needs before anything starts: parameter files, environment, output folder."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.ros.demo.plan import read_parameters, untrained, write_parameters
from rmuscle_ros.ros.deployment import PACKAGE, Deployment
from rmuscle_ros.ros.overlay import find_setup_script, overlay_prefix, ros_environment
from rmuscle_ros.ros.station.settings import StationConfig

UNTRAINED_NOTE = (
    'the policy is untrained: its episodes do not succeed, so library.admit is set to all and '
    'recorded failures serve as references'
)


@dataclass(frozen=True)
class Setup:
    """Everything the run needs.

    parameters: those of the node, dotted keys, as written to ``deployment.params_file``.
    environment: for the processes. domain_id: an own one, so that no robot listens.
    trained: whether the policy has a checkpoint.
    """

    deployment: Deployment
    parameters: Mapping[str, Any]
    environment: Mapping[str, str]
    log_directory: Path
    domain_id: int
    episode_length_s: float
    trained: bool


def prepare(args: argparse.Namespace) -> Setup:
    """Read and merge the parameter files, choose a domain; ConfigError or SetupError."""
    _check_counts(args)
    domain_id = 1 + os.getpid() % 100
    # For our own node and, through the environment, for the processes: nothing leaves the machine.
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    os.environ['ROS_DOMAIN_ID'] = str(domain_id)
    environment = ros_environment()
    config = _config_directory(environment)
    parameters = read_parameters(args.params_file or config / 'aloha.yaml')
    parameters |= _chosen(args)
    trained = not untrained(parameters)
    if not trained:
        parameters['library.admit'] = 'all'
    station = args.station_params_file or config / 'station.yaml'
    length_s = read_parameters(station).get('episode_length_s', StationConfig().episode_length_s)
    params_file = args.out / 'parameters.yaml'
    write_parameters(parameters, params_file)
    return Setup(
        deployment=Deployment(params_file=params_file.resolve(), station_params_file=station),
        parameters=parameters,
        environment=environment,
        log_directory=args.out / 'logs',
        domain_id=domain_id,
        episode_length_s=length_s,
        trained=trained,
    )


def _check_counts(args: argparse.Namespace) -> None:
    counts = {'reference': args.reference, 'cached': args.cached, 'dense': args.dense}
    for name, count in {**counts, 'seed': args.seed}.items():
        if count < 0:
            raise ConfigError(f'--{name}: found {count}, expected 0 or more')
    if not any(counts.values()):
        raise ConfigError('nothing to run: --reference, --cached and --dense are all 0')


def _config_directory(environment: Mapping[str, str]) -> Path:
    prefix = overlay_prefix(environment.get('AMENT_PREFIX_PATH', ''))
    if prefix is None:
        return find_setup_script().parents[1] / 'config'
    return prefix / 'share' / PACKAGE / 'config'


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The node's parameters that were given on the command line."""
    values = {
        'cache.rho_p': args.rho_p,
        'cache.rho_n': args.rho_n,
        'cache.group_len': args.group_len,
    }
    return {name: value for name, value in values.items() if value is not None}
