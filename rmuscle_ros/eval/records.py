"""What was observed in a run: calls, joint traces, frames, episodes. ``None`` means "no data"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmuscle_ros.errors import RecordError
from rmuscle_ros.types import Mode, Reason, WindowStatus

REFERENCE = 'reference'
CACHED = 'cached'
DENSE = 'dense'
KINDS = (REFERENCE, CACHED, DENSE)


@dataclass(frozen=True)
class CallRecord:
    """One call as it left the policy: an ``ActionChunk`` message without its rows.

    time_s: when the chunk was published, seconds since the episode started.
    observation_stamp_s: stamp of the observation the chunk answers, seconds on its own clock.
    observation_age_ms: how old that observation was when the call began.
    mode, reason: the enums, or their values as plain strings (``'cached'``, ``'CACHED'``).
    error_estimate: the guard's estimate of the action error, normalised units.
    skipped_rows: rows already in the past when the chunk was published.
    gate_wait_ms: wait for the rebuild thread to yield, part of ``total_ms``.
    """

    call: int
    time_s: float
    mode: Mode
    reason: Reason
    episode: int | None = None
    detail: str = ''
    vision_ms: float | None = None
    prefill_ms: float | None = None
    denoise_ms: float | None = None
    total_ms: float | None = None
    gate_wait_ms: float | None = None
    similarity: float | None = None
    drift: float | None = None
    reference_id: str | None = None
    rho_p: float | None = None
    rho_n: float | None = None
    error_estimate: float | None = None
    observation_stamp_s: float | None = None
    observation_age_ms: float | None = None
    joint_names: tuple[str, ...] = ()
    period_s: float | None = None
    horizon: int | None = None
    skipped_rows: int | None = None

    def __post_init__(self) -> None:
        where = f'call {self.call}'
        object.__setattr__(self, 'mode', _member(Mode, self.mode, f'{where}: mode'))
        object.__setattr__(self, 'reason', _member(Reason, self.reason, f'{where}: reason'))
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise RecordError(
                    f'{where}: {name} is {value}, expected a finite number or None for "no data"'
                )

    @property
    def cached(self) -> bool:
        return self.mode is Mode.CACHED

    @property
    def prefill_denoise_ms(self) -> float | None:
        """The part the caches work on: everything but vision tower, matching and waiting."""
        if self.prefill_ms is None or self.denoise_ms is None:
            return None
        return self.prefill_ms + self.denoise_ms

    @property
    def latency_ms(self) -> dict[str, float | None]:
        """Milliseconds by stage: vision, prefill, denoise, prefill_denoise and total."""
        return {
            'vision': self.vision_ms,
            'prefill': self.prefill_ms,
            'denoise': self.denoise_ms,
            'prefill_denoise': self.prefill_denoise_ms,
            'total': self.total_ms,
        }


@dataclass(frozen=True)
class JointTrace:
    """Joint motion of one episode, sampled at one clock.

    times_s: float [T], since the episode started, increasing.
    commanded, measured: float [T, J], rad (m for a gripper finger); NaN where a sample is missing.
    chunk_starts_s: the times at which a new chunk took over.
    """

    times_s: np.ndarray
    commanded: np.ndarray
    measured: np.ndarray
    joint_names: tuple[str, ...]
    chunk_starts_s: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        expected = (len(self.times_s), len(self.joint_names))
        for name in ('commanded', 'measured'):
            shape = np.shape(getattr(self, name))
            if shape != expected:
                raise RecordError(
                    f'JointTrace.{name}: found shape {shape}, expected [T, J] = {expected}'
                )


@dataclass(frozen=True)
class Frame:
    """What the cameras saw at ``time_s`` of the episode; camera name -> uint8 [H, W, 3], RGB."""

    time_s: float
    images: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        for camera, image in self.images.items():
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
                raise RecordError(
                    f'Frame at {self.time_s:g} s: {camera} is {image.dtype} {list(image.shape)}, '
                    'expected uint8 [H, W, 3]'
                )


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode.

    kind: ``reference`` (dense and recorded), ``cached``, or ``dense`` (the comparison).
    index: its number within its kind, from 0.
    success, max_reward: the station's verdict; None when it gave none.
    admitted: whether a recorded episode entered the library; None when it was not recorded.
    note: anything a reader should know, such as why it ended early.
    """

    kind: str
    index: int
    seed: int | None = None
    task: str = ''
    success: bool | None = None
    max_reward: int | None = None
    calls: Sequence[CallRecord] = ()
    joints: JointTrace | None = None
    frames: Sequence[Frame] = ()
    admitted: bool | None = None
    note: str = ''

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RecordError(
                f'EpisodeRecord.kind: found {self.kind!r}, expected one of {", ".join(KINDS)}'
            )


@dataclass(frozen=True)
class ModelRecord:
    """The policy that ran. ``trained`` None: not known; ``note`` says it in words."""

    name: str
    fingerprint: str | None = None
    parameters: int | None = None
    trained: bool | None = None
    note: str = ''


@dataclass(frozen=True)
class RunRecord:
    """A whole run, in the order in which it happened.

    versions, machine: from ``rmuscle_ros.machine``.
    settings: what was in force, by short name. The page explains ``guard``, ``error_budget``,
        ``rho_p``, ``rho_n``, ``anchors``, ``similarity_threshold``, ``drift_fence`` and
        ``drift_limits`` (per camera; None: not calibrated) and draws the fences; further keys are
        listed as they are.
    window: the window and its rebuild thread at the end of the run.
    incidents: what went wrong in words: rejected trajectories, diagnostics errors, timeouts.
    started: date and time as text; None leaves it off the page.
    """

    episodes: Sequence[EpisodeRecord]
    model: ModelRecord
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    window: WindowStatus | None = None
    incidents: Sequence[str] = ()
    started: str | None = None

    def of_kind(self, kind: str) -> list[EpisodeRecord]:
        return [episode for episode in self.episodes if episode.kind == kind]


def _member(kind: type, value: Any, name: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known = ', '.join(member.value for member in kind)  # type: ignore[attr-defined]
        raise RecordError(f'{name}: found {value!r}, expected one of {known}') from None
