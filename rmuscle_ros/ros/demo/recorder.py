"""Records what the topics carry during the demo's episodes, as ``rmuscle_ros.eval.records``."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.msg import Log
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState
from trajectory_msgs.msg import JointTrajectory

from rmuscle_ros.errors import TrajectoryError
from rmuscle_ros.eval.records import CallRecord, EpisodeRecord, Frame, JointTrace
from rmuscle_ros.msg import ActionChunk, CacheStatus, EpisodeResult
from rmuscle_ros.ros.conversions import image_array, to_seconds
from rmuscle_ros.ros.demo.messages import call_record, window_status
from rmuscle_ros.ros.demo.plan import PlannedEpisode
from rmuscle_ros.ros.faults import POLICY
from rmuscle_ros.ros.qos import latched_qos
from rmuscle_ros.ros.station.diagnostics import LAG_MAX_KEY, loop_section
from rmuscle_ros.ros.station.loop import ARMS, home_followers
from rmuscle_ros.ros.station.messages import trajectory_command
from rmuscle_ros.sim.aloha import CAMERAS, JOINT_NAMES
from rmuscle_ros.types import WindowStatus

FRAMES_PER_EPISODE = 6


@dataclass(frozen=True)
class Facts:
    """What was learned about the run as a whole.

    policy: the values of the node's diagnostics about its policy (model, engine, device, ...).
    window: as it was late in the last episode; None without a ``~/status``.
    station_lag_ms: the most that a control step of the station came late during an episode.
    incidents: errors and rejections in words, each once, with its count.
    """

    policy: Mapping[str, str]
    window: WindowStatus | None
    drift_limits: tuple[float, ...]
    station_lag_ms: float | None
    incidents: tuple[str, ...]


@dataclass
class _Take:
    """What has been received since the episode began; times since ``begin_s``."""

    begin_s: float
    calls: list[CallRecord] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    measured: list[np.ndarray] = field(default_factory=list)
    commanded: list[np.ndarray] = field(default_factory=list)
    chunk_starts_s: list[float] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    result: EpisodeResult | None = None


class Recorder:
    """Subscribes to everything the station and the node ``rmuscle`` say.

    Its callbacks run in the thread that spins ``node``; ``begin`` and ``finish`` in another.
    What was commanded is not on a topic: the trajectories are followed here by the station's own
    rules, sampled at each joint state.
    """

    def __init__(self, node: Node, station: str, policy: str, episode_length_s: float) -> None:
        self._node = node
        self._frame_period_s = episode_length_s / (FRAMES_PER_EPISODE - 1)
        self._lock = threading.Lock()
        self._take: _Take | None = None
        self._followers = home_followers()
        self._pictures: dict[str, Image] = {}
        self._status: CacheStatus | None = None
        self._episode_status: CacheStatus | None = None
        self._lag_section = loop_section(station)
        self._station_lag_ms: float | None = None
        self._policy_section = f'{policy}: {POLICY}'
        self._policy_values: dict[str, str] = {}
        self._incidents: dict[str, int] = {}
        self._subscribe(station, policy)

    def begin(self) -> None:
        """Forget the last episode; time starts now and the arms are home."""
        with self._lock:
            self._followers = home_followers()
            self._pictures = {}
            self._take = _Take(self._now_s())

    def result(self, seed: int) -> EpisodeResult | None:
        """The station's verdict on this episode, once it is there."""
        with self._lock:
            result = self._take.result if self._take else None
        return result if result is not None and result.seed == seed else None

    def calls(self) -> int:
        """Calls of this episode so far."""
        with self._lock:
            return len(self._take.calls) if self._take else 0

    def problems(self) -> Sequence[str]:
        """Errors that were heard, in words."""
        return self.facts().incidents

    def finish(self, planned: PlannedEpisode, admitted: bool | None, note: str) -> EpisodeRecord:
        """The record of the episode that ``begin`` started."""
        with self._lock:
            take, self._take = self._take, None
            instruction = self._status.instruction if self._status else ''
        if take is None:
            raise RuntimeError('finish() without begin()')
        joints = len(JOINT_NAMES)
        result = take.result
        return EpisodeRecord(
            kind=planned.kind,
            index=planned.index,
            seed=planned.seed,
            task=instruction,
            success=None if result is None else result.success,
            max_reward=None if result is None else result.max_reward,
            calls=tuple(take.calls),
            joints=JointTrace(
                times_s=np.array(take.times_s),
                commanded=np.array(take.commanded).reshape(-1, joints),
                measured=np.array(take.measured).reshape(-1, joints),
                joint_names=JOINT_NAMES,
                chunk_starts_s=tuple(take.chunk_starts_s),
            ),
            frames=tuple(take.frames),
            admitted=admitted,
            note=note,
        )

    def facts(self) -> Facts:
        """What is known by now about the run as a whole."""
        with self._lock:
            status = self._episode_status or self._status
            return Facts(
                policy=dict(self._policy_values),
                window=None if status is None else window_status(status),
                drift_limits=() if status is None else tuple(status.drift_limits),
                station_lag_ms=self._station_lag_ms,
                incidents=tuple(
                    text if count == 1 else f'{text} ({count} times)'
                    for text, count in self._incidents.items()
                ),
            )

    def _subscribe(self, station: str, policy: str) -> None:
        create = self._node.create_subscription
        create(ActionChunk, f'{policy}/action_chunk', self._on_chunk, 50)
        create(CacheStatus, f'{policy}/status', self._on_status, 10)
        create(EpisodeResult, f'{station}/episode_result', self._on_result, latched_qos())
        create(DiagnosticArray, '/diagnostics', self._on_diagnostics, 50)
        create(Log, '/rosout', self._on_log, 50)
        create(JointState, 'joint_states', self._on_joints, 200)
        for arm in ARMS:
            create(
                JointTrajectory,
                f'{arm}_controller/joint_trajectory',
                partial(self._on_trajectory, arm),
                50,
            )
        for camera in CAMERAS:
            create(
                Image,
                f'{camera}/image_raw',
                partial(self._on_image, camera),
                qos_profile_sensor_data,
            )

    def _now_s(self) -> float:
        return 1e-9 * float(self._node.get_clock().now().nanoseconds)

    def _on_chunk(self, message: ActionChunk) -> None:
        with self._lock:
            if self._take is not None:
                time_s = self._now_s() - self._take.begin_s
                self._take.calls.append(call_record(message, time_s, self._now_s()))

    def _on_trajectory(self, arm: str, message: JointTrajectory) -> None:
        now_s = self._now_s()
        with self._lock:
            try:
                self._followers[arm].accept(trajectory_command(message), now_s)
            except TrajectoryError as error:
                self._count(f'trajectory for {arm} rejected: {error}')
                return
            if self._take is not None and arm == ARMS[0]:
                self._take.chunk_starts_s.append(now_s - self._take.begin_s)

    def _on_joints(self, message: JointState) -> None:
        time_s = to_seconds(message.header.stamp)
        with self._lock:
            take = self._take
            if take is None or time_s <= take.begin_s:
                return
            position = dict(zip(message.name, message.position, strict=True))
            take.times_s.append(time_s - take.begin_s)
            take.measured.append(np.array([position.get(name, np.nan) for name in JOINT_NAMES]))
            take.commanded.append(
                np.concatenate([self._followers[arm].sample(time_s) for arm in ARMS])
            )

    def _on_image(self, camera: str, message: Image) -> None:
        """Keep a frame once all cameras have sent a picture of the same moment."""
        with self._lock:
            take = self._take
            if take is None:
                return
            self._pictures[camera] = message
            stamps = {to_seconds(picture.header.stamp) for picture in self._pictures.values()}
            time_s = to_seconds(message.header.stamp) - take.begin_s
            due_s = len(take.frames) * self._frame_period_s
            if len(self._pictures) < len(CAMERAS) or len(stamps) > 1 or time_s < due_s:
                return
            images = {
                name: image_array(picture).copy() for name, picture in self._pictures.items()
            }
            take.frames.append(Frame(time_s, images))

    def _on_status(self, message: CacheStatus) -> None:
        with self._lock:
            self._status = message
            # The end of an episode empties the window.
            if self._take is not None and self._take.result is None:
                self._episode_status = message

    def _on_result(self, message: EpisodeResult) -> None:
        with self._lock:
            if self._take is not None:
                self._take.result = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        with self._lock:
            for status in message.status:
                values = {item.key: item.value for item in status.values}
                if status.name == self._policy_section and values:
                    self._policy_values = values
                if self._take is not None and status.name == self._lag_section:
                    self._note_lag(values.get(LAG_MAX_KEY))
                if self._take is not None and status.level == DiagnosticStatus.ERROR:
                    # One that lasts is repeated every second, and is in the log once as well.
                    self._incidents.setdefault(f'{status.name.lstrip("/")}: {status.message}', 1)

    def _on_log(self, message: Log) -> None:
        if message.level >= Log.ERROR:
            with self._lock:
                self._count(f'{message.name}: {message.msg.splitlines()[0]}')

    def _note_lag(self, text: str | None) -> None:
        if text:
            self._station_lag_ms = max(float(text), self._station_lag_ms or 0.0)

    def _count(self, text: str) -> None:
        self._incidents[text] = self._incidents.get(text, 0) + 1
