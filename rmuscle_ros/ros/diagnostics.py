"""Diagnostics and status messages out of what the parts of the node report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from rmuscle_ros.msg import CacheStatus
from rmuscle_ros.ros.conversions import or_nan
from rmuscle_ros.ros.faults import OBSERVATIONS, POLICY, SCHEDULE, SHADOW, Fault, Faults, Level
from rmuscle_ros.ros.pilot import Pilot
from rmuscle_ros.ros.sampling import SourceReport
from rmuscle_ros.ros.shares import ShareCounts
from rmuscle_ros.statistics import ratio
from rmuscle_ros.types import CALL_CATEGORIES, PolicyInfo, PolicyStatus, ShadowStatus

REFUSAL_SHOWN_S = 5.0
SHADOW_REFERENCES = 8

Values = dict[str, str]


class Section:
    """One DiagnosticStatus: values to show, and faults on top of the recorded ones."""

    def __init__(
        self, component: str, values: Values | None = None, faults: Iterable[Fault] = ()
    ) -> None:
        self.component = component
        self.values = values or {}
        self.faults = tuple(faults)

    def message(
        self, node_name: str, hardware_id: str, state: str, recorded: Faults
    ) -> DiagnosticStatus:
        found = sorted((*recorded.of(self.component), *self.faults), key=lambda f: -f.level)
        level = found[0].level if found else Level.OK
        return DiagnosticStatus(
            level=bytes([level]),
            name=f'{node_name}: {self.component}',
            message='; '.join(fault.reason for fault in found) or state,
            hardware_id=hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in self.values.items()],
        )


def array(
    stamp: Time,
    node_name: str,
    hardware_id: str,
    state: str,
    sections: Iterable[Section],
    recorded: Faults,
) -> DiagnosticArray:
    """``state`` (such as active) is the message of a section without faults."""
    message = DiagnosticArray()
    message.header.stamp = stamp
    message.status = [
        section.message(node_name, hardware_id, state, recorded) for section in sections
    ]
    return message


def policy_section(info: PolicyInfo, status: PolicyStatus, shares: ShareCounts) -> Section:
    """shares: see ``CacheStatus.recent_rho_p``."""
    values = {
        'model': info.model,
        'parameters': str(info.parameters),
        'fingerprint': info.fingerprint,
        'cameras': ', '.join(info.cameras),
        'image_size': ' x '.join(map(str, info.image_size)),
        'engine': info.engine,
        'device': info.device,
        'dtype': info.dtype,
        'episode': str(status.episode),
        'recording': str(status.recording),
        'library_episodes': str(status.library_episodes),
        'library_entries': str(status.library_entries),
        'latched': status.latched.value if status.latched else 'none',
        'window_skipped_over_cap': str(status.window.skipped_over_cap),
        'rebuild_jobs': str(status.window.jobs),
        'guard_slope': number(status.guard_slope),
        'recent_rho_p': str(shares),
        'recent_over_budget': str(shares.over_budget),
        **{f'calls_{name}': str(status.calls.get(name, 0)) for name in CALL_CATEGORIES},
    }
    if status.last is not None:
        values['last_call_ms'] = f'{status.last.times.total_ms:.1f}'
        values['last_reason'] = status.last.reason.value
    faults = []
    if status.rebuild_error is not None:
        faults.append(Fault(Level.ERROR, f'the rebuild thread has died: {status.rebuild_error}'))
    return Section(POLICY, values, faults)


def observation_section(reports: Iterable[SourceReport]) -> Section:
    values: Values = {}
    faults = []
    for report in reports:
        values[f'{report.name}.age_s'] = number(report.age_s)
        values[f'{report.name}.received'] = str(report.received)
        values[f'{report.name}.lost'] = str(report.lost)
        values[f'{report.name}.refused'] = str(report.refused)
        age_s = report.last_refusal_age_s
        if age_s is not None and age_s < REFUSAL_SHOWN_S:
            text = f'{report.name}: {report.refused} messages refused: {report.last_refusal}'
            faults.append(Fault(Level.WARN, text))
    return Section(OBSERVATIONS, values, faults)


def schedule_section(pilot: Pilot, time_s: float) -> Section:
    counters, schedule = pilot.counters, pilot.schedule
    values = {
        'latency_s': number(schedule.latency.estimate_s),
        'execution_horizon': str(schedule.execution_horizon),
        'rows_left': str(schedule.rows_left(time_s)),
        'chunks': str(counters.chunks),
        'holds': str(counters.holds),
        'overruns': str(counters.overruns),
        'dropped_chunks': str(counters.dropped_chunks),
    }
    return Section(SCHEDULE, values)


def shadow_section(shadow: ShadowStatus) -> Section:
    """Its warning is a fault of ``ros.shadow.ShadowWatch``, which also logs it."""
    values = {
        'runs': str(shadow.runs),
        'skipped': str(shadow.skipped),
        'error_p50': number(shadow.p50),
        'error_p99': number(shadow.p99),
        'error_max': number(shadow.max),
        'error_recent_p50': number(shadow.recent_p50),
        'spread_p50': number(shadow.spread_p50),
        'error_share_of_spread': number(ratio(shadow.recent_p50, shadow.spread_p50)),
    }
    if shadow.last is not None:
        values['last_call'] = str(shadow.last.call)
        values['last_error'] = number(shadow.last.error)
        values['last_largest'] = number(shadow.last.largest)
        values['last_similarity'] = number(shadow.last.similarity)
        values['last_drift'] = number(shadow.last.drift)
        values['last_reference'] = shadow.last.reference_id or 'none'
    for reference in shadow.references[:SHADOW_REFERENCES]:
        text = f'{number(reference.p50)} over {reference.count}'
        values[f'error_p50.{reference.episode_id}'] = text
    return Section(SHADOW, values)


def number(value: float | None) -> str:
    return 'none' if value is None else f'{value:.3f}'


def status_message(
    stamp: Time,
    status: PolicyStatus,
    cache: Mapping[str, float | bool],
    shares: ShareCounts,
    instruction: str,
) -> CacheStatus:
    """``cache``: the values in force, under the names of the message (enabled, rho_p, …)."""
    last, window = status.last, status.window
    message = CacheStatus()
    message.header.stamp = stamp
    for name, value in cache.items():
        setattr(message, name, value)
    message.recording = status.recording
    message.drift_limits = list(status.drift_limits or ())
    message.guard_slope = or_nan(status.guard_slope)
    message.instruction = instruction
    for name in CALL_CATEGORIES:
        setattr(message, f'calls_{name}', status.calls.get(name, 0))
    message.episode = status.episode
    message.latched = status.latched.value if status.latched else ''
    message.last_similarity = or_nan(last.similarity if last else None)
    message.last_reference_id = (last.reference_id if last else None) or ''
    message.recent_rho_p = list(shares.calls)
    message.recent_rho_p_calls = list(shares.calls.values())
    message.recent_over_budget = shares.over_budget
    message.library_episodes = status.library_episodes
    message.library_entries = status.library_entries
    message.window_entries = window.entries
    message.window_capacity = window.capacity
    message.window_bytes = window.bytes
    message.rebuild_pending = window.pending
    message.rebuild_jobs = window.jobs
    message.rebuilds = window.rebuilds
    message.rebuild_ms_p50 = or_nan(window.rebuild_ms_p50)
    message.rebuild_misses = window.misses
    message.rebuild_error = status.rebuild_error or ''
    _fill_shadow(message, status.shadow)
    return message


def _fill_shadow(message: CacheStatus, shadow: ShadowStatus) -> None:
    message.shadow_runs = shadow.runs
    message.shadow_skipped = shadow.skipped
    message.shadow_call_last = shadow.last.call if shadow.last else 0
    message.shadow_error_last = or_nan(shadow.last.error if shadow.last else None)
    message.shadow_error_p50 = or_nan(shadow.p50)
    message.shadow_error_p99 = or_nan(shadow.p99)
    message.shadow_error_max = or_nan(shadow.max)
    message.shadow_error_recent_p50 = or_nan(shadow.recent_p50)
    message.shadow_spread_p50 = or_nan(shadow.spread_p50)
    message.shadow_references = [reference.episode_id for reference in shadow.references]
    message.shadow_reference_error_p50 = [or_nan(ref.p50) for ref in shadow.references]
    message.shadow_warning = shadow.warning or ''
