"""The demo's run as ``rmuscle_ros.eval`` takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rclpy.utilities import get_rmw_implementation_identifier

from rmuscle_ros import machine
from rmuscle_ros.config import PolicyConfig, fields_of
from rmuscle_ros.eval.records import EpisodeRecord, ModelRecord, RunRecord
from rmuscle_ros.ros.demo.plan import SEED_POLICY
from rmuscle_ros.ros.demo.recorder import Facts
from rmuscle_ros.ros.demo.setup import UNTRAINED_NOTE, Setup

# Of the caches, those that say what a cached call computes and when there is one.
CACHE_SETTINGS = (
    'guard',
    'error_budget',
    'rho_p',
    'references',
    'rho_n',
    'unselected',
    'similarity_threshold',
    'drift_fence',
)


def run_record(
    setup: Setup,
    episodes: Sequence[EpisodeRecord],
    facts: Facts,
    started: str,
    calibration_s: float | None,
) -> RunRecord:
    """The whole run.

    started: date and time as text. calibration_s: waited for it before anything was compared.
    """
    return RunRecord(
        episodes=tuple(episodes),
        model=ModelRecord(
            name=facts.policy.get('model', 'unknown'),
            fingerprint=facts.policy.get('fingerprint'),
            parameters=_count(facts.policy.get('parameters')),
            trained=setup.trained,
            note='' if setup.trained else UNTRAINED_NOTE,
        ),
        settings=_settings(setup, facts) | {'calibration_wait_s': calibration_s},
        versions=machine.versions() | {'rmw': get_rmw_implementation_identifier()},
        machine=machine.machine(),
        window=facts.window,
        incidents=facts.incidents,
        started=started,
    )


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)


def _settings(setup: Setup, facts: Facts) -> dict[str, Any]:
    """What was in force; a setting the parameter file leaves out has its default."""
    values = {key: default for key, _, default in fields_of(PolicyConfig())} | dict(
        setup.parameters
    )
    return {
        **{name: values[f'cache.{name}'] for name in CACHE_SETTINGS},
        'anchors': list(values['cache.anchors']),
        'drift_limits': list(facts.drift_limits) or None,
        'denoise_steps': values['engine.denoise_steps'],
        'execution_horizon': values.get('execution_horizon'),
        'admit': values['library.admit'],
        'engine': facts.policy.get('engine'),
        'device': facts.policy.get('device'),
        'dtype': facts.policy.get('dtype'),
        'episode_length_s': setup.episode_length_s,
        'station_lag_max_ms': facts.station_lag_ms,
        'scenes': SEED_POLICY,
    }
