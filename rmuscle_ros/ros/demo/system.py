"""The running station and policy node, driven through their services as the demo needs them."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from rmuscle_ros.errors import ProcessError
from rmuscle_ros.eval.records import EpisodeRecord
from rmuscle_ros.ros.demo.plan import PlannedEpisode
from rmuscle_ros.ros.demo.recorder import Recorder
from rmuscle_ros.ros.deployment import Deployment
from rmuscle_ros.ros.service_calls import LIFECYCLE, PARAMETERS, RemoteNode, ServiceCaller

START_S = 60.0
CONFIGURE_S = 300.0
ACTIVATE_S = 60.0
# The hold command that deactivate publishes must arrive before the arms are put back.
SETTLE_S = 0.2
# On top of the episode's length, which counts from the first accepted trajectory.
FIRST_CHUNK_S = 20.0

EpisodeProgress = Callable[[float, int], None]


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
        self._station = RemoteNode(self._caller, station, {**PARAMETERS, 'reset': Trigger})
        self._policy = RemoteNode(
            self._caller,
            policy,
            {**PARAMETERS, **LIFECYCLE, 'reset': Trigger, 'end_episode': SetBool},
        )
        self._episode_length_s = episode_length_s
        self.recorder = Recorder(node, station, policy, episode_length_s)

    def configure(self) -> None:
        """Wait for both nodes and let the policy load; ProcessError when that fails."""
        self._station.get_parameters(['seed'], START_S)
        self._policy.state(START_S)
        self._policy.change_state('configure', CONFIGURE_S)

    def run(self, planned: PlannedEpisode, progress: EpisodeProgress) -> EpisodeRecord:
        """One episode from reset to verdict. ``progress``: told seconds and calls so far."""
        self._prepare(planned)
        self.recorder.begin()
        self._policy.change_state('activate', ACTIVATE_S)
        note = self._wait_for_result(planned, progress)
        self._policy.change_state('deactivate')
        admitted, detail = self._end(planned)
        return self.recorder.finish(planned, admitted, '; '.join(filter(None, (note, detail))))

    def _prepare(self, planned: PlannedEpisode) -> None:
        time.sleep(SETTLE_S)
        self._station.set_parameters({'seed': planned.seed})
        self._policy.set_parameters(
            {'cache.enabled': planned.cache_enabled, 'library.record': planned.recorded}
        )
        for remote in (self._station, self._policy):
            response = remote.call('reset', Trigger.Request())
            if not response.success:
                raise ProcessError(f'{remote.full_name}/reset failed: {response.message}')

    def _wait_for_result(self, planned: PlannedEpisode, progress: EpisodeProgress) -> str:
        """Wait for the verdict; "" or, when none came, a note that says so."""
        begin_s = time.monotonic()
        limit_s = self._episode_length_s + FIRST_CHUNK_S

        def ended() -> bool:
            seconds = time.monotonic() - begin_s
            progress(seconds, self.recorder.calls())
            return self.recorder.result(planned.seed) is not None or seconds > limit_s

        self._caller.wait_until(ended, 'the end of the episode', limit_s + 5.0)
        if self.recorder.result(planned.seed) is not None:
            return ''
        if self.recorder.calls() == 0:
            problems = '; '.join(self.recorder.facts().incidents) or 'no error on /diagnostics'
            raise ProcessError(
                f'{self._policy.full_name} sent no chunk in {limit_s:.0f} s ({problems}); see its '
                'log'
            )
        return f'the station gave no verdict within {limit_s:.0f} s'

    def _end(self, planned: PlannedEpisode) -> tuple[bool | None, str]:
        """Tell the node how it went; whether a recorded episode was admitted, and why not."""
        result = self.recorder.result(planned.seed)
        success = result is not None and bool(result.success)
        response = self._policy.call('end_episode', SetBool.Request(data=success))
        if not planned.recorded:
            return None, ''
        if response.success:
            return True, ''
        return False, response.message
