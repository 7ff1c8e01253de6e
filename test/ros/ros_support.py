"""For tests that talk to running processes: a peer on their domain, and waiting with a limit."""

import os
import re
import threading
import time
from pathlib import Path

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import SetBool, Trigger

from rmuscle_ros.ros.deployment import Deployment
from rmuscle_ros.ros.overlay import ros_environment
from rmuscle_ros.ros.runner import Runner, node_command
from rmuscle_ros.ros.service_calls import LIFECYCLE, PARAMETERS, RemoteNode, ServiceCaller

CONFIG = Path(__file__).parents[2] / 'config'


def deployment(**changes):
    files = {'params_file': CONFIG / 'aloha.yaml', 'station_params_file': CONFIG / 'station.yaml'}
    return Deployment(**{**files, **changes})


def environment(domain_id, **changes):
    return {**ros_environment(), 'ROS_DOMAIN_ID': str(domain_id), **changes}


def start(processes, env, log_directory):
    """A running runner over the executables of the overlay."""
    commands = [node_command(process, env) for process in processes]
    runner = Runner(commands, env, log_directory, print)
    runner.start()
    return runner


def wait_for(condition, what, timeout_s=20.0, check=lambda: None):
    """What ``condition`` returned once it was true; an AssertionError that names ``what`` else."""
    end_s = time.monotonic() + timeout_s
    while not (found := condition()):
        check()
        assert time.monotonic() < end_s, f'waited {timeout_s:g} s for {what}'
        time.sleep(0.02)
    return found


def processes_of(directory):
    """Command lines of running processes that name ``directory``."""
    found = []
    for entry in os.listdir('/proc'):
        try:
            with open(f'/proc/{entry}/cmdline', 'rb') as file:
                line = file.read().replace(b'\0', b' ').decode()
        except OSError:
            continue
        if re.search(re.escape(str(directory)), line):
            found.append(line)
    return found


class Peer:
    """A node in a context of its own, spun by a thread."""

    def __init__(self, domain_id, check=lambda: None):
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain_id)
        self.node = rclpy.create_node(f'peer_{os.getpid()}', context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        self._caller = ServiceCaller(self.node, check, lambda *_: None)

    def listen(self, kind, topic, qos=10):
        """A list that grows with each message."""
        messages = []
        self.node.create_subscription(kind, topic, messages.append, qos)
        return messages

    def remote(self, full_name):
        """The services that the station and the node ``rmuscle`` have."""
        own = {'reset': Trigger, 'end_episode': SetBool}
        return RemoteNode(self._caller, full_name, {**PARAMETERS, **LIFECYCLE, **own})

    def close(self):
        self._stop.set()
        self._thread.join(5.0)
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def _spin(self):
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.05)
