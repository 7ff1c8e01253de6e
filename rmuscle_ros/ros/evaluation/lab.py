"""The station and policy nodes as processes on this machine, each policy node ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.node import Node

from rmuscle_ros.errors import ProcessError
from rmuscle_ros.ros.deployment import NodeProcess
from rmuscle_ros.ros.episode_driver import Background, Ended, EpisodeDriver, EpisodeProgress
from rmuscle_ros.ros.evaluation.listener import CallListener
from rmuscle_ros.ros.evaluation.plan import policy_parameters, station_parameters
from rmuscle_ros.ros.evaluation.progress import Progress
from rmuscle_ros.ros.local_run import claim_domain, interruptible, spinning_node
from rmuscle_ros.ros.parameter_files import config_directory, read_parameters, write_parameters
from rmuscle_ros.ros.runner import Runner, node_command
from rmuscle_ros.ros.service_calls import ServiceCaller

STATION = NodeProcess(executable='aloha_station', name='aloha_station')
CALIBRATE_S = 600.0


@dataclass(frozen=True)
class PolicyNode:
    """A configured policy node. parameters: all that its file says. stop: ends its process."""

    name: str
    parameters: Mapping[str, Any]
    listener: CallListener
    stop: Callable[[], None]
    caller: ServiceCaller
    driver: EpisodeDriver
    background: Background

    def run(self, seed: int, progress: EpisodeProgress) -> Ended:
        """One episode; then wait until the node's background work is done."""
        ended = self.driver.run(seed, {}, progress)
        self.settle()
        return ended

    def settle(self) -> None:
        """Wait until nothing is left to calibrate, expand or rerun; ProcessError if that lasts."""
        if not self.background.wait(self.caller, f'background work of {self.name}', CALIBRATE_S):
            raise ProcessError(f'{self.name}: background work has not ended in {CALIBRATE_S:g} s')


class Lab:
    """A context manager: the station runs while it is entered, and all nodes started in it.

    folder: takes parameter files and the output of the processes.
    """

    def __init__(self, task: str, checkpoint: str, folder: Path, progress: Progress) -> None:
        self._progress, self._folder = progress, folder
        self._domain = claim_domain()
        config = config_directory(self._domain.environment)
        self.shared = policy_parameters(read_parameters(config / 'aloha.yaml'), checkpoint, task)
        self._station = station_parameters(read_parameters(config / 'station.yaml'), task)
        self._runners: list[Runner] = []
        self._stack = ExitStack()
        self._node: Node | None = None

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            stack.enter_context(interruptible())
            domain_id = self._domain.domain_id
            self._node = stack.enter_context(spinning_node('rmuscle_eval', domain_id))
            self._progress.line(
                f'nodes on ROS_DOMAIN_ID={domain_id}, this machine only; their output is in '
                f'{self._folder / "logs"}'
            )
            stack.enter_context(self._process(STATION, self._station))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(self, name: str, values: Mapping[str, Any]) -> PolicyNode:
        """A policy node with ``values`` over the shared parameters, configured and settled."""
        if self._node is None:
            raise RuntimeError('start() outside of the context')
        self._progress.line(f'starting the policy node of {name}')
        process = NodeProcess(executable='rmuscle_node', name=f'policy_{name}', lifecycle=True)
        parameters = self.shared | dict(values)
        runner = self._stack.enter_context(self._process(process, parameters))
        station, full_name = STATION.full_name, process.full_name
        caller = ServiceCaller(self._node, self._check, self._progress.waiting)
        listener = CallListener(self._node, station, full_name)
        length_s = self._station['episode_length_s']
        driver = EpisodeDriver(caller, station, full_name, listener, length_s)
        node = PolicyNode(
            name=name,
            parameters=parameters,
            listener=listener,
            stop=lambda: self._stop(runner),
            caller=caller,
            driver=driver,
            background=Background(self._node, full_name),
        )
        driver.configure()
        node.settle()
        return node

    def _process(self, process: NodeProcess, parameters: Mapping[str, Any]) -> Runner:
        path = self._folder / 'parameters' / f'{process.name}.yaml'
        write_parameters(parameters, path)
        environment = self._domain.environment
        described = NodeProcess(
            executable=process.executable, name=process.name, parameter_files=(path,)
        )
        runner = Runner(
            [node_command(described, environment)],
            environment,
            self._folder / 'logs',
            self._progress.line,
        )
        self._runners.append(runner)
        return runner

    def _stop(self, runner: Runner) -> None:
        self._runners.remove(runner)
        runner.stop()

    def _check(self) -> None:
        for runner in self._runners:
            runner.check()
