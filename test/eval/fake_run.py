"""A synthetic run with plausible numbers, for tests of the summary and the page."""

from __future__ import annotations

import numpy as np

from rmuscle_ros.eval.records import (
    CallRecord,
    EpisodeRecord,
    Frame,
    JointTrace,
    ModelRecord,
    RunRecord,
)
from rmuscle_ros.types import Mode, Reason, WindowStatus

SIDE = ('waist', 'shoulder', 'elbow', 'forearm_roll', 'wrist_angle', 'wrist_rotate', 'gripper')
JOINTS = tuple(f'follower_{side}/{name}' for side in ('left', 'right') for name in SIDE)
CAMERAS = ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
CALLS_PER_EPISODE = 16
CALL_PERIOD_S = 0.5
TASK = 'Pick up the red cube with the right arm and hand it to the left arm.'
MEDIAN_MS = {
    Mode.DENSE: {'vision_ms': 19.0, 'prefill_ms': 58.0, 'denoise_ms': 47.0},
    Mode.CACHED: {'vision_ms': 19.0, 'prefill_ms': 34.0, 'denoise_ms': 36.0},
}


def make_run(seed: int = 0) -> RunRecord:
    """3 reference, 5 cached and 2 dense episodes; cached ones show every kind of fallback."""
    rng = np.random.default_rng(seed)
    cached_reasons = [[Reason.CACHED] * CALLS_PER_EPISODE for _ in range(5)]
    for reasons in cached_reasons:
        reasons[0] = Reason.REFERENCE_NOT_READY
    cached_reasons[2][9:] = [Reason.FALLBACK_SIMILARITY] * (CALLS_PER_EPISODE - 9)
    cached_reasons[3][6:8] = [Reason.FALLBACK_DRIFT] * 2
    cached_reasons[4][3] = Reason.OVER_BUDGET
    recorded = [
        [Reason.NO_REFERENCE if index == 0 else Reason.CACHE_DISABLED] * CALLS_PER_EPISODE
        for index in range(3)
    ]
    off = [[Reason.CACHE_DISABLED] * CALLS_PER_EPISODE] * 2
    return RunRecord(
        episodes=[
            *(make_episode(rng, 'reference', i, r) for i, r in enumerate(recorded)),
            *(make_episode(rng, 'cached', i, r) for i, r in enumerate(cached_reasons)),
            *(make_episode(rng, 'dense', i, r) for i, r in enumerate(off)),
        ],
        model=ModelRecord(
            'tiny', 'synthetic-0123456789abcdef', 9_412_110, False, 'seeded initial weights'
        ),
        settings={
            'guard': True,
            'error_budget': 0.02,
            'rho_p': 0.2,
            'anchors': [0, 3, 8],
            'rho_n': 0.0,
            'similarity_threshold': 0.8,
            'drift_limits': [0.062, 0.041, 0.05],
            'denoise_steps': 10,
            'library.admit': 'all',
        },
        versions={'rmuscle_ros': '0.1.0', 'python': '3.11.2', 'torch': '2.9.0', 'rclpy': None},
        machine={
            'cpu': 'Synthetic CPU 9000',
            'cores': 2,
            'memory_gib': 15.6,
            'os': 'Debian GNU/Linux 12 (bookworm)',
            'gpu': None,
        },
        window=WindowStatus(
            entries=18, bytes=41_943_040, capacity=20, rebuilds=131, rebuild_ms_p50=61.0, misses=5
        ),
        incidents=['synthetic: trajectory 4 of cached episode 3 rejected: ends in the past'],
        started='2001-01-01 12:00 UTC',
    )


def make_episode(
    rng: np.random.Generator, kind: str, index: int, reasons: list[Reason]
) -> EpisodeRecord:
    calls = [make_call(rng, kind, number, reason) for number, reason in enumerate(reasons)]
    return EpisodeRecord(
        kind=kind,
        index=index,
        seed=100 + index,
        task=TASK,
        success=False,
        max_reward=int(rng.integers(0, 3)),
        calls=calls,
        joints=make_trace(rng, [call.time_s for call in calls]),
        frames=[make_frame(t) for t in np.arange(0.0, 8.0, 0.5)],
        admitted=True if kind == 'reference' else None,
    )


def make_call(rng: np.random.Generator, kind: str, number: int, reason: Reason) -> CallRecord:
    """Call ``number`` of an episode; matched calls carry similarity and drift."""
    cached = reason is Reason.CACHED
    mode = Mode.CACHED if cached else Mode.DENSE
    slow = 1.6 if number == 0 else 1.0
    times = {
        name: float(median * slow * rng.lognormal(0.0, 0.07))
        for name, median in MEDIAN_MS[mode].items()
    }
    matched = kind == 'cached'
    low = {Reason.FALLBACK_SIMILARITY: 0.71}.get(reason, 0.955)
    drift = {Reason.FALLBACK_DRIFT: 1.6, Reason.FALLBACK_SIMILARITY: None}.get(reason, 0.5)
    return CallRecord(
        call=number,
        episode=1,
        time_s=0.15 + number * CALL_PERIOD_S,
        mode=mode,
        reason=reason,
        similarity=float(low + rng.uniform(-0.03, 0.03)) if matched else None,
        drift=float(drift * rng.lognormal(0.0, 0.15)) if matched and drift else None,
        reference_id=f'synthetic-1/{number}' if cached else None,
        rho_p=float(rng.choice((0.4, 0.6))) if cached else None,
        rho_n=0.0 if cached else None,
        error_estimate=0.018 if cached else 0.031 if reason is Reason.OVER_BUDGET else None,
        total_ms=sum(times.values()) + float(rng.uniform(2.0, 5.0)),
        gate_wait_ms=float(rng.uniform(0.0, 2.0)),
        observation_age_ms=float(rng.uniform(5.0, 30.0)),
        joint_names=JOINTS,
        period_s=0.02,
        horizon=50,
        skipped_rows=6,
        **times,
    )


def make_trace(rng: np.random.Generator, chunk_starts_s: list[float]) -> JointTrace:
    """50 Hz for 8 s: smooth commands with a small step at each chunk, measured with a lag."""
    times_s = np.arange(0.0, 8.0, 0.02)
    phase = rng.uniform(0.0, 2 * np.pi, len(JOINTS))
    swing = rng.uniform(0.05, 0.45, len(JOINTS))
    commanded = swing * np.sin(0.8 * times_s[:, None] + phase)
    steps = rng.normal(0.0, 0.012, (len(chunk_starts_s), len(JOINTS)))
    for start_s, step in zip(chunk_starts_s, steps, strict=True):
        commanded[(times_s >= start_s) & (times_s < start_s + CALL_PERIOD_S)] += step
    measured = np.empty_like(commanded)
    measured[0] = commanded[0]
    for row in range(1, len(times_s)):
        measured[row] = measured[row - 1] + 0.25 * (commanded[row] - measured[row - 1])
    return JointTrace(times_s, commanded, measured, JOINTS, tuple(chunk_starts_s))


def make_frame(time_s: float) -> Frame:
    """A grey gradient, a brown table and a red cube that wanders with time."""
    images = {}
    for offset, camera in enumerate(CAMERAS):
        image = np.empty((120, 160, 3), np.uint8)
        image[:] = np.linspace(90, 190, 120, dtype=np.uint8)[:, None, None]
        image[70:] = (120, 96, 72)
        left = 20 + int(12 * time_s) + 8 * offset
        image[74:90, left : left + 16] = (200, 40, 40)
        images[camera] = image
    return Frame(float(time_s), images)
