"""What crosses package boundaries: observations, chunks and their provenance. Numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

VISION = 'vision'
PREFIX = 'prefix'
ACTION = 'action'


class Site(NamedTuple):
    """One FFN of one layer. ``stack`` is one of ``vision``, ``prefix``, ``action``."""

    stack: str
    layer: int


class Mode(str, Enum):
    """How a call ran."""

    DENSE = 'dense'
    CACHED = 'cached'


class Reason(str, Enum):
    """Why a call ran in its mode. All of them are normal operation, never errors."""

    CACHED = 'CACHED'
    CACHE_DISABLED = 'CACHE_DISABLED'
    NO_REFERENCE = 'NO_REFERENCE'
    REFERENCE_NOT_READY = 'REFERENCE_NOT_READY'
    NOT_CALIBRATED = 'NOT_CALIBRATED'
    FALLBACK_SIMILARITY = 'FALLBACK_SIMILARITY'
    FALLBACK_DRIFT = 'FALLBACK_DRIFT'
    OVER_BUDGET = 'OVER_BUDGET'

    @property
    def category(self) -> str:
        """The counter of ``summary.json`` (``calls``) this reason belongs to."""
        return _CATEGORY[self]


_CATEGORY = {
    Reason.CACHED: 'cached',
    Reason.CACHE_DISABLED: 'dense',
    Reason.NO_REFERENCE: 'no_reference',
    Reason.REFERENCE_NOT_READY: 'not_ready',
    Reason.NOT_CALIBRATED: 'not_ready',
    Reason.FALLBACK_SIMILARITY: 'fallback',
    Reason.FALLBACK_DRIFT: 'fallback',
    Reason.OVER_BUDGET: 'fallback',
}
CALL_CATEGORIES = ('dense', 'cached', 'fallback', 'not_ready', 'no_reference')


@dataclass(frozen=True)
class Observation:
    """What the robot sees and feels at one instant.

    images: camera name -> uint8 [H, W, 3], RGB; a camera that is absent has no key.
    joints: joint name -> position (rad; m for a gripper finger). More joints than the policy
        needs are fine, a missing one is an ObservationError.
    stamp_s: when it was taken, seconds on the caller's clock.
    """

    images: Mapping[str, np.ndarray]
    joints: Mapping[str, float]
    instruction: str
    stamp_s: float


@dataclass(frozen=True)
class StageTimes:
    """Milliseconds of one call. ``gate_wait_ms`` is the wait for the rebuild thread to yield."""

    vision_ms: float
    prefill_ms: float
    denoise_ms: float
    total_ms: float
    gate_wait_ms: float


@dataclass(frozen=True)
class Provenance:
    """Where a chunk came from. ``None`` means "no data" (a dense call has no drift, say).

    similarity: cosine of the visual key with the best slot of the window.
    drift: the worst view's mean drift from the reference, in units of its limit (1 = the fence).
    reference_id: ``<episode id>/<position>`` of the entry that served.
    rho_p, rho_n: the fractions in force for this call. ``rho_n`` is 0 when the denoise steps
        between anchors were skipped, and None when all were computed: where a reference served,
        ``detail`` says why. Dense calls have one too where the Action Cache needs no reference.
    error_estimate: the guard's estimate of the action error (normalised units) at the share it
        chose, or at the largest one when that exceeds the budget.
    """

    call: int
    episode: int
    mode: Mode
    reason: Reason
    detail: str
    times: StageTimes
    observation_stamp_s: float
    similarity: float | None = None
    drift: float | None = None
    reference_id: str | None = None
    rho_p: float | None = None
    rho_n: float | None = None
    error_estimate: float | None = None


@dataclass(frozen=True)
class ActionChunk:
    """``horizon`` joint targets, ``period_s`` apart.

    actions: float32 [horizon, joints] (rad; m for a gripper finger). Row k is the target for
        ``stamp_s + (k + 1) * period_s``.
    """

    actions: np.ndarray
    joint_names: tuple[str, ...]
    period_s: float
    stamp_s: float
    provenance: Provenance

    @property
    def horizon(self) -> int:
        return int(self.actions.shape[0])


@dataclass(frozen=True)
class PolicyInfo:
    """What a caller must know to feed a policy and to read its chunks.

    fingerprint: of weights, configuration, input processing and precision.
    image_size: height and width in pixels to which pictures are resized.
    horizon, period_s: rows of a chunk, and seconds between them.
    """

    model: str
    parameters: int
    fingerprint: str
    cameras: tuple[str, ...]
    image_size: tuple[int, int]
    joint_names: tuple[str, ...]
    horizon: int
    period_s: float
    device: str
    dtype: str
    engine: str


@dataclass(frozen=True)
class WindowStatus:
    """The sliding window and its rebuild thread at one moment.

    entries, bytes: expanded now. capacity: entries the window wants, pending: those still to come.
    rebuilds: expansions since the policy was created, rebuild_ms_p50: median time of the last 256.
    misses: calls for which no slot above the fence was expanded.
    skipped_over_cap: entries left out because of ``cache.window_mib``.
    jobs: other work of the rebuild thread that waits or runs: calibration, shadow reruns.
    """

    entries: int = 0
    bytes: int = 0
    capacity: int = 0
    pending: int = 0
    rebuilds: int = 0
    rebuild_ms_p50: float | None = None
    misses: int = 0
    skipped_over_cap: int = 0
    jobs: int = 0


@dataclass(frozen=True)
class ShadowRecord:
    """A cached call and its dense rerun with the same noise; normalised units.

    error: mean over the chunk of |cached - dense|; largest: the maximum of the same.
    """

    call: int
    reference_id: str | None
    similarity: float | None
    drift: float | None
    error: float
    largest: float


@dataclass(frozen=True)
class ShadowedReference:
    """The errors of the calls that one reference episode served; p50 is None for a single one."""

    episode_id: str
    count: int
    p50: float | None
    max: float


@dataclass(frozen=True)
class ShadowStatus:
    """What shadow mode found: errors of the last 256 shadows, normalised units.

    runs: shadows since the policy was created. skipped: calls whose turn it was, but a later one
        came before there was idle time.
    recent_p50: the median of the last ``shadow.window`` shadows alone.
    spread_p50: what two dense runs of one observation with different noise differ by, median.
    references: per reference episode, its last ``shadow.window`` shadows; largest median first.
    warning: what has gone stale and what to do; None while nothing has.
    """

    runs: int = 0
    skipped: int = 0
    p50: float | None = None
    p99: float | None = None
    max: float | None = None
    recent_p50: float | None = None
    spread_p50: float | None = None
    last: ShadowRecord | None = None
    references: tuple[ShadowedReference, ...] = ()
    warning: str | None = None


@dataclass(frozen=True)
class PolicyStatus:
    """A snapshot for status topics and reports; counts are since the policy was created."""

    calls: Mapping[str, int]
    episode: int
    library_episodes: int
    library_entries: int
    window: WindowStatus
    latched: Reason | None = None
    drift_limits: tuple[float, ...] | None = None
    guard_slope: float | None = None
    rebuild_error: str | None = None
    last: Provenance | None = None
    recording: bool = False
    shadow: ShadowStatus = ShadowStatus()


@dataclass(frozen=True)
class EpisodeEnd:
    """What ``end_episode`` did: whether the episode entered the library, and why (not)."""

    admitted: bool
    detail: str
    entries: int = 0
    episode_id: str | None = None


@dataclass(frozen=True)
class ModelInputs:
    """A call's inputs as the model sees them: small enough to store, enough to replay.

    images: uint8 [V, S, S, 3], RGB after resize, one per camera in ``cameras`` order.
    cameras: the present cameras, in the model's order.
    state: float32 [J], raw joint positions in the model's joint order (rad, m).
    instruction: the raw text.
    """

    images: np.ndarray
    cameras: tuple[str, ...]
    state: np.ndarray
    instruction: str
