"""How a node of this package begins and ends as a process: rclpy, and the signals to stop."""

from __future__ import annotations

import signal
import threading

import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.signals import SignalHandlerOptions

from rmuscle_ros.errors import ConfigError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def stop_event() -> threading.Event:
    """An event that SIGINT and SIGTERM set, from now on."""
    event = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: event.set())
    return event


def ignore_stop_signals() -> None:
    """While a node stops, in bounded time: being asked again must not cut that short.

    Python would let a signal kill the process while the interpreter ends.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def start_rclpy(args: list[str] | None) -> None:
    """Start rclpy; ConfigError for an argument or a parameter file that it cannot read."""
    try:
        # rclpy's own handlers would end the context while something is still to be published.
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except rclpy_implementation.UnknownROSArgsError as error:
        raise ConfigError(f'unknown ROS arguments {error}') from error
    except rclpy_implementation.RCLError as error:
        raise ConfigError(str(error)) from error
