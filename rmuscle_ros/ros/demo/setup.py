"""What the demo needs before anything starts: parameter files, environment, output folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.presets import PRESETS
from rmuscle_ros.ros.demo.plan import untrained
from rmuscle_ros.ros.deployment import Deployment
from rmuscle_ros.ros.local_run import claim_domain
from rmuscle_ros.ros.parameter_files import config_directory, read_parameters, write_parameters
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
    chosen = _chosen(args)
    domain = claim_domain()
    config = config_directory(domain.environment)
    parameters = read_parameters(args.params_file or config / 'aloha.yaml') | chosen
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
        environment=domain.environment,
        log_directory=args.out / 'logs',
        domain_id=domain.domain_id,
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


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The caches' parameters that the command line gives; ConfigError for a bad one."""
    options = {
        'cache.error_budget': args.error_budget,
        'cache.rho_p': args.rho_p,
        'cache.anchors': None if args.anchors is None else _steps(args.anchors),
        'cache.rho_n': args.rho_n,
    }
    given = {key: value for key, value in options.items() if value is not None}
    values = PRESETS[args.preset] | given
    with_values(PolicyConfig(), values)
    return values


def _steps(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(','))
    except ValueError as error:
        raise ConfigError(
            f'--anchors: found {text!r}, expected step numbers with commas, such as 0,2,5,8'
        ) from error
