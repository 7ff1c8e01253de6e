"""The station's physics and its pictures, each in a thread of its own. No ROS.

Rendering a picture takes half a control period on a CPU, so the pictures of a moment are drawn
from a copy of the state while the physics go on; all cameras show the same moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rmuscle_ros.errors import ProcessError
from rmuscle_ros.ros.station.episode import Episode, Outcome
from rmuscle_ros.ros.station.schedule import Schedule, StepTimes
from rmuscle_ros.ros.station.settings import StationConfig
from rmuscle_ros.sim.aloha import CONTROL_PERIOD_S, HOME, JOINT_NAMES
from rmuscle_ros.sim.detached import DetachedCameras
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.trajectory import JointTrajectoryCommand, TrajectoryFollower

ARMS = ('follower_left', 'follower_right')
_ANSWER_S = 20.0


class Outputs(Protocol):
    """Where the loop's results go; called from its threads."""

    def joints(self, time_s: float, positions: np.ndarray, velocities: np.ndarray) -> None:
        """After each control step: [14] rad (m) and rad/s, in the order of ``JOINT_NAMES``."""

    def images(self, time_s: float, images: dict[str, np.ndarray]) -> None:
        """Pictures of the state at ``time_s``: camera name -> uint8 [H, W, 3]."""

    def ended(self, time_s: float, outcome: Outcome) -> None:
        """Once per episode."""

    def failed(self, error: Exception) -> None:
        """A thread has ended with ``error``; nothing moves any more."""


@dataclass(frozen=True)
class _Reset:
    seed: int
    length_s: float
    done: threading.Event


class StationLoop:
    """Runs the station at 50 Hz until ``stop``.

    config: the station's settings.
    now_s: the clock that stamps and trajectories refer to (not used with ``publish_clock``: time
        is then the simulated one, which starts at one control period and never goes back).
    times: collects durations of steps and pictures.
    """

    def __init__(
        self,
        config: StationConfig,
        now_s: Callable[[], float],
        outputs: Outputs,
        times: StepTimes,
    ) -> None:
        self.schedule = Schedule(CONTROL_PERIOD_S / config.real_time_factor)
        self._config = config
        self._clock_s = now_s
        self._outputs = outputs
        self._times = times
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._steps = 0
        self._reset: _Reset | None = None
        self._followers = home_followers()
        self._episode = Episode(config.seed, config.episode_length_s)
        self._pictures = _PictureThread(config.image_size, outputs, times)
        self._thread = threading.Thread(target=self._run, name='station physics', daemon=True)

    def start(self) -> None:
        """Start both threads; what fails in them goes to ``outputs.failed``."""
        self._pictures.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop both threads and wait for them."""
        self._stop.set()
        self._pictures.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout=5.0)

    def now_s(self) -> float:
        """The present time on the station's clock."""
        return self._steps * CONTROL_PERIOD_S if self._config.publish_clock else self._clock_s()

    def accept(self, arm: str, command: JointTrajectoryCommand) -> None:
        """Let ``arm`` follow a trajectory from now on, or raise TrajectoryError."""
        with self._lock:
            now_s = self.now_s()
            self._followers[arm].accept(command, now_s)
            self._episode.begin(now_s)

    def reset(self, seed: int, length_s: float) -> None:
        """Begin a new episode: arms home, no trajectories, the scene of ``seed``.

        ProcessError when the loop does not do it in time, or does not run.
        """
        request = _Reset(seed, length_s, threading.Event())
        with self._lock:
            self._reset = request
        end_s = time.monotonic() + _ANSWER_S
        while not request.done.wait(0.1):
            if not self._thread.is_alive():
                raise ProcessError('the simulation has stopped; its log says why')
            if time.monotonic() > end_s:
                raise ProcessError(f'the station was not reset within {_ANSWER_S:.0f} s')

    def _run(self) -> None:
        try:
            with AlohaStation(self._config.image_size, self._config.task) as station:
                station.reset(self._config.seed)
                self.schedule.restart()
                while (lag_s := self.schedule.wait(self._stop)) is not None:
                    begin_s = time.monotonic()
                    self._step(station, lag_s)
                    self._times.step(lag_s, time.monotonic() - begin_s)
        except Exception as error:  # noqa: BLE001, whoever runs the loop must know
            self._outputs.failed(error)

    def _step(self, station: AlohaStation, lag_s: float) -> None:
        self._steps += 1
        # The step ends at the moment it was due, however late it runs: physics, trajectories and
        # stamps then agree.
        time_s = self.now_s() - (0.0 if self._config.publish_clock else lag_s)
        with self._lock:
            self._apply_reset(station)
            targets = np.concatenate([self._followers[arm].sample(time_s) for arm in ARMS])
        station.step(targets)
        self._outputs.joints(time_s, station.joint_positions(), station.joint_velocities())
        if self._picture_due():
            self._pictures.post(time_s, station.scene_positions())
        with self._lock:
            outcome = self._episode.step(time_s, station.success, station.max_reward)
        if outcome is not None:
            self._outputs.ended(time_s, outcome)

    def _apply_reset(self, station: AlohaStation) -> None:
        request, self._reset = self._reset, None
        if request is None:
            return
        station.reset(request.seed)
        self._followers = home_followers()
        self._episode = Episode(request.seed, request.length_s)
        self.schedule.restart()
        request.done.set()

    def _picture_due(self) -> bool:
        per_step = self._config.camera_rate_hz * CONTROL_PERIOD_S
        return int(self._steps * per_step) > int((self._steps - 1) * per_step)


class _PictureThread:
    """Draws the newest posted state; one posted while it draws replaces the one that waits."""

    def __init__(self, image_size: int, outputs: Outputs, times: StepTimes) -> None:
        self._image_size = image_size
        self._outputs = outputs
        self._times = times
        self._changed = threading.Condition()
        self._newest: tuple[float, np.ndarray] | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name='station pictures', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, time_s: float, positions: np.ndarray) -> None:
        with self._changed:
            self._newest = (time_s, positions)
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        try:
            with DetachedCameras(self._image_size) as cameras:
                while (state := self._take()) is not None:
                    begin_s = time.monotonic()
                    images = cameras.render(state[1])
                    self._times.render(time.monotonic() - begin_s)
                    self._outputs.images(state[0], images)
        except Exception as error:  # noqa: BLE001, whoever runs the loop must know
            self._outputs.failed(error)

    def _take(self) -> tuple[float, np.ndarray] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._newest is not None)
            state, self._newest = self._newest, None
        return None if self._stopped else state


def arm_joints(arm: str) -> tuple[str, ...]:
    """The joints of ``arm``, in the order of ``JOINT_NAMES``."""
    return tuple(name for name in JOINT_NAMES if name.startswith(f'{arm}_'))


def home_followers() -> dict[str, TrajectoryFollower]:
    """A follower per arm that holds the home pose until its first trajectory."""
    home = dict(zip(JOINT_NAMES, HOME, strict=True))
    return {
        arm: TrajectoryFollower(arm_joints(arm), np.array([home[j] for j in arm_joints(arm)]))
        for arm in ARMS
    }
