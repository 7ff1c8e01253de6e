"""The messages of the node ``rmuscle`` as ``rmuscle_ros.eval`` records them."""

from __future__ import annotations

from rmuscle_ros.eval.records import CallRecord
from rmuscle_ros.msg import ActionChunk, CacheStatus
from rmuscle_ros.ros.conversions import known, to_seconds
from rmuscle_ros.types import Mode, Reason, WindowStatus


def call_record(message: ActionChunk, time_s: float, now_s: float) -> CallRecord:
    """A chunk as it arrived at ``now_s``, ``time_s`` into the episode."""
    stamp_s = to_seconds(message.header.stamp)
    return CallRecord(
        call=message.call,
        time_s=time_s,
        mode=Mode(message.mode),
        reason=Reason(message.reason),
        episode=message.episode,
        detail=message.detail,
        vision_ms=known(message.vision_ms),
        prefill_ms=known(message.prefill_ms),
        denoise_ms=known(message.denoise_ms),
        total_ms=known(message.total_ms),
        gate_wait_ms=known(message.gate_wait_ms),
        similarity=known(message.similarity),
        drift=known(message.drift),
        reference_id=message.reference_id or None,
        rho_p=known(message.rho_p),
        rho_n=known(message.rho_n),
        error_estimate=known(message.error_estimate),
        observation_stamp_s=stamp_s,
        observation_age_ms=known(1e3 * (now_s - stamp_s) - message.total_ms),
        joint_names=tuple(message.joint_names),
        period_s=message.period_s,
        horizon=message.horizon,
        skipped_rows=message.skipped_rows,
    )


def window_status(message: CacheStatus) -> WindowStatus:
    """The window as ``~/status`` reports it."""
    return WindowStatus(
        entries=message.window_entries,
        bytes=message.window_bytes,
        capacity=message.window_capacity,
        pending=message.rebuild_pending,
        rebuilds=message.rebuilds,
        rebuild_ms_p50=known(message.rebuild_ms_p50),
        misses=message.rebuild_misses,
        jobs=message.rebuild_jobs,
    )
