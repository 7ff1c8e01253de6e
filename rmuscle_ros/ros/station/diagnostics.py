"""What the simulated station says about itself on ``/diagnostics``, once per second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from rmuscle_ros.ros.station.schedule import Schedule, Timing

_HARDWARE_ID = 'simulation'
LAG_MAX_KEY = 'lag max (ms)'


@dataclass
class TrajectoryCount:
    """Trajectories of one arm since the node started."""

    accepted: int = 0
    rejected: int = 0
    last_reason: str = ''
    new_rejections: int = 0

    def reject(self, reason: str) -> None:
        self.rejected += 1
        self.new_rejections += 1
        self.last_reason = reason


def loop_section(node: str) -> str:
    """The name under which the control loop of ``node`` (its full name) reports."""
    return f'{node}: control loop'


def loop_status(node: str, timing: Timing, schedule: Schedule) -> DiagnosticStatus:
    """The pace of the control loop in the last second."""
    period_ms = 1e3 * schedule.period_s
    level, text = DiagnosticStatus.OK, 'on time'
    if timing.lag_max_ms is None:
        level, text = DiagnosticStatus.ERROR, 'no control step in the last second'
    elif timing.lag_max_ms > period_ms:
        level = DiagnosticStatus.WARN
        text = f'late by up to {timing.lag_max_ms:.0f} ms: the machine is overloaded'
    return _status(
        loop_section(node),
        level,
        text,
        {
            'control steps': str(timing.steps),
            'control period (ms)': f'{period_ms:g}',
            'lag p50 (ms)': _number(timing.lag_p50_ms),
            LAG_MAX_KEY: _number(timing.lag_max_ms),
            'step p50 (ms)': _number(timing.step_p50_ms),
            'images per camera': str(timing.images),
            'render all cameras p50 (ms)': _number(timing.render_p50_ms),
            'schedule moved after a pause': str(schedule.moved),
        },
    )


def trajectory_status(node: str, counts: Mapping[str, TrajectoryCount]) -> DiagnosticStatus:
    """Trajectories by arm; a warning for the rejections since the last call."""
    level, text = DiagnosticStatus.OK, 'none rejected in the last second'
    values: dict[str, str] = {}
    for arm, count in counts.items():
        if count.new_rejections:
            level, text = DiagnosticStatus.WARN, f'{arm}: rejected: {count.last_reason}'
            count.new_rejections = 0
        values[f'{arm} accepted'] = str(count.accepted)
        values[f'{arm} rejected'] = str(count.rejected)
        values[f'{arm} last rejection'] = count.last_reason
    return _status(f'{node}: trajectories', level, text, values)


def _status(name: str, level: bytes, text: str, values: Mapping[str, str]) -> DiagnosticStatus:
    return DiagnosticStatus(
        name=name,
        level=level,
        message=text,
        hardware_id=_HARDWARE_ID,
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )


def _number(value: float | None) -> str:
    return '' if value is None else f'{value:.2f}'
