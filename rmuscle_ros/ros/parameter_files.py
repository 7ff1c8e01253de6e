"""Parameter files of ROS nodes as flat mappings, and where the package keeps its own. No rclpy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rmuscle_ros.config import flatten
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.ros.deployment import PACKAGE
from rmuscle_ros.ros.overlay import find_setup_script, overlay_prefix


def read_parameters(path: Path) -> dict[str, Any]:
    """The parameters that a YAML of the form ``/**: ros__parameters:`` gives, dotted keys."""
    try:
        tree = yaml.safe_load(path.read_text())
        return flatten(tree['/**']['ros__parameters'] or {})
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigError(
            f'{path}: not a parameter file ({error!r}); expected "/**:" with "ros__parameters:"'
        ) from error


def write_parameters(values: Mapping[str, Any], path: Path) -> None:
    """Write ``values`` (dotted keys) as a parameter file for any node in any namespace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': dict(values)}}, sort_keys=True))


def config_directory(environment: Mapping[str, str]) -> Path:
    """The package's ``config`` folder: the installed one, else that of the checkout."""
    prefix = overlay_prefix(environment.get('AMENT_PREFIX_PATH', ''))
    if prefix is None:
        return find_setup_script().parents[1] / 'config'
    return prefix / 'share' / PACKAGE / 'config'
