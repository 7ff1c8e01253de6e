"""The running station and policy node, driven through their services as the demo needs them."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node

from rmuscle_ros.eval.records import EpisodeRecord
from rmuscle_ros.ros.demo.plan import PlannedEpisode
from rmuscle_ros.ros.demo.recorder import Recorder
from rmuscle_ros.ros.deployment import Deployment
from rmuscle_ros.ros.episode_driver import Background, EpisodeDriver, EpisodeProgress
from rmuscle_ros.ros.service_calls import ServiceCaller

CALIBRATE_S = 180.0


class System:
    """Configures the node, then runs one episode after the other.

    check: raises when a process has died; called while anything is awaited.
    waiting: told what is awaited and for how many seconds already.
    """

    def __init__(
        self,
        node: Node,
        deployment: Deployment,
        episode_length_s: float,
        check: Callable[[], None],
        waiting: Callable[[str, float], None],
    ) -> None:
        station, policy = deployment.station().full_name, deployment.node().full_name
        self._caller = ServiceCaller(node, check, waiting)
        self.recorder = Recorder(node, station, policy, episode_length_s)
        self._driver = EpisodeDriver(
            self._caller, station, policy, self.recorder, episode_length_s
        )
        self._background = Background(node, policy)

    def configure(self) -> None:
        """Wait for both nodes and let the policy load; ProcessError when that fails."""
        self._driver.configure()

    def calibrate(self) -> bool:
        """Wait until the caches are calibrated on what was recorded; False if that takes long."""
        return self._background.wait(self._caller, 'the calibration of the caches', CALIBRATE_S)

    def run(self, planned: PlannedEpisode, progress: EpisodeProgress) -> EpisodeRecord:
        """One episode from reset to verdict. ``progress``: told seconds and calls so far."""
        parameters = {'cache.enabled': planned.cache_enabled, 'library.record': planned.recorded}
        ended = self._driver.run(planned.seed, parameters, progress)
        admitted = ended.admitted if planned.recorded else None
        notes = (ended.note, ended.detail if admitted is False else '')
        return self.recorder.finish(planned, admitted, '; '.join(filter(None, notes)))
