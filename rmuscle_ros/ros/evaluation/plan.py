"""Which modes the node can run, and the parameters of the nodes that run them. No rclpy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.modes import ALL, MODES, EvalMode, find_modes
from rmuscle_ros.rollout import EXECUTION_HORIZON, TIME_FACTOR
from rmuscle_ros.sim.aloha import CONTROL_PERIOD_S
from rmuscle_ros.sim.tasks import TASKS

# The other methods live behind the seams of the library; the node runs a ``Policy``.
NODE_MODES = [mode for mode in MODES.values() if not mode.method]
# A status tells of the last shadow alone: often enough that none is missed.
STATUS_RATE_HZ = 10.0


def find_node_modes(text: str) -> list[EvalMode]:
    """The modes of a comma-separated list, or of ``all``; ConfigError for one without a node."""
    if text.strip() == ALL:
        return list(NODE_MODES)
    modes = find_modes(text)
    for mode in modes:
        if mode not in NODE_MODES:
            raise ConfigError(
                f'--modes: found {mode.name}, which no node runs; with --ros expected names of '
                f'{", ".join(mode.name for mode in NODE_MODES)}, or {ALL}; leave --ros out for it'
            )
    return modes


def policy_parameters(shipped: Mapping[str, Any], checkpoint: str, task: str) -> dict[str, Any]:
    """Parameters of every policy node, over those of ``config/aloha.yaml``."""
    return {
        **shipped,
        'model.checkpoint': checkpoint,
        'instruction': TASKS[task].instruction,
        'execution_horizon': EXECUTION_HORIZON,
        'library.record': False,
        'library.admit': 'success',
        'library.directory': '',
        'shadow.every': 1,
        'status_rate_hz': STATUS_RATE_HZ,
    }


def station_parameters(shipped: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Those of the station, over ``config/station.yaml``: an episode may last as in process."""
    length_s = TASKS[task].steps * TIME_FACTOR * CONTROL_PERIOD_S
    return {**shipped, 'task': task, 'episode_length_s': length_s}


def mode_parameters(mode: EvalMode, library: Path | None) -> dict[str, Any]:
    """What makes a policy node run ``mode``. library: where recorded references lie."""
    directory = str(library) if mode.references and library is not None else ''
    return {**mode.values, 'library.directory': directory}
