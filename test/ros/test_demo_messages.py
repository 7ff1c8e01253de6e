"""Messages of the node as the report's records."""

import math

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from rmuscle_ros.msg import CacheStatus
from rmuscle_ros.ros.conversions import chunk_message
from rmuscle_ros.ros.demo.messages import call_record, window_status
from rmuscle_ros.types import ActionChunk, Mode, Provenance, Reason, StageTimes


def chunk(**changes):
    provenance = {
        'call': 7,
        'episode': 2,
        'mode': Mode.CACHED,
        'reason': Reason.CACHED,
        'detail': '',
        'times': StageTimes(5.0, 20.0, 70.0, 97.0, 1.5),
        'observation_stamp_s': 100.0,
        'similarity': 0.97,
        'drift': 0.01,
        'reference_id': 'a/3',
        'rho_p': 0.4,
        'rho_n': 0.0,
        'error_estimate': 0.018,
        **changes,
    }
    actions = np.zeros((50, 2), np.float32)
    return ActionChunk(actions, ('a', 'b'), 0.02, 100.0, Provenance(**provenance))


def test_a_call_keeps_its_provenance_and_gets_its_times():
    record = call_record(chunk_message(chunk(), skipped_rows=6), time_s=1.5, now_s=100.12)
    assert (record.call, record.episode, record.time_s) == (7, 2, 1.5)
    assert (record.mode, record.reason) == (Mode.CACHED, Reason.CACHED)
    assert (record.vision_ms, record.prefill_ms, record.denoise_ms) == (5.0, 20.0, 70.0)
    assert (record.similarity, record.drift, record.reference_id) == (0.97, 0.01, 'a/3')
    assert (record.rho_p, record.rho_n, record.error_estimate) == (0.4, 0.0, 0.018)
    assert (record.horizon, record.period_s, record.skipped_rows) == (50, 0.02, 6)
    assert record.observation_age_ms == pytest.approx(120.0 - 97.0)


def test_no_data_is_none_not_nan_or_empty():
    names = ('similarity', 'drift', 'reference_id', 'rho_p', 'rho_n', 'error_estimate')
    empty = dict.fromkeys(names)
    dense = chunk(mode=Mode.DENSE, reason=Reason.NO_REFERENCE, **empty)
    record = call_record(chunk_message(dense, skipped_rows=0), time_s=0.0, now_s=101.0)
    assert all(getattr(record, name) is None for name in empty)


def test_a_window_without_rebuilds_has_no_median():
    message = CacheStatus(window_entries=3, rebuild_jobs=2, rebuild_ms_p50=math.nan)
    window = window_status(message)
    assert (window.entries, window.jobs, window.rebuild_ms_p50) == (3, 2, None)
