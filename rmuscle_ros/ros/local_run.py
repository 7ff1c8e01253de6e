"""A command that runs nodes on this machine only: their domain, and a node of its own to talk."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from rmuscle_ros.ros.overlay import ros_environment


@dataclass(frozen=True)
class LocalDomain:
    """A domain that no robot listens on. environment: for the processes of the run."""

    domain_id: int
    environment: dict[str, str]


def claim_domain() -> LocalDomain:
    """A domain of this process' own; nothing leaves the machine. SetupError without an overlay."""
    domain_id = 1 + os.getpid() % 100
    # For our own node and, through the environment, for the processes.
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    os.environ['ROS_DOMAIN_ID'] = str(domain_id)
    return LocalDomain(domain_id, ros_environment())


@contextmanager
def spinning_node(name: str, domain_id: int, namespace: str = '') -> Iterator[Node]:
    """A node of our own, spun by a thread; Ctrl-C stays with the main thread."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO, domain_id=domain_id)
    node = Node(name, namespace=namespace)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.2)

    thread = threading.Thread(target=spin, name=f'spin {name}', daemon=True)
    thread.start()
    try:
        yield node
    finally:
        stop.set()
        thread.join(timeout=5.0)
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
