"""Quality of service of every topic, and the report when a peer's does not fit."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.event_handler import (
    PublisherEventCallbacks,
    QoSOfferedIncompatibleQoSInfo,
    QoSRequestedIncompatibleQoSInfo,
    SubscriptionEventCallbacks,
)
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)


def sensor_qos(reliability: str, depth: int) -> QoSProfile:
    """``reliability`` is best_effort or reliable. Only the newest samples are of use."""
    policy = {
        'best_effort': ReliabilityPolicy.BEST_EFFORT,
        'reliable': ReliabilityPolicy.RELIABLE,
    }[reliability]
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=policy)


def command_qos(depth: int = 10) -> QoSProfile:
    """Chunks, trajectories, status: reliable."""
    return QoSProfile(depth=depth, reliability=ReliabilityPolicy.RELIABLE)


def latched_qos() -> QoSProfile:
    """The last message reaches those who come late."""
    return QoSProfile(
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
    )


def publisher_events(topic: str, report: Callable[[str], None]) -> PublisherEventCallbacks:
    """Report subscribers that ask for more than we offer."""

    def incompatible(event: QoSOfferedIncompatibleQoSInfo) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        report(f'{topic}: a subscriber asks for another {policy} and receives nothing')

    return PublisherEventCallbacks(incompatible_qos=incompatible)


def subscription_events(topic: str, report: Callable[[str], None]) -> SubscriptionEventCallbacks:
    """Report publishers that offer less than we ask for."""

    def incompatible(event: QoSRequestedIncompatibleQoSInfo) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        report(
            f'{topic}: a publisher offers another {policy}, nothing is received from it; '
            'set sensor_reliability to what it offers'
        )

    return SubscriptionEventCallbacks(incompatible_qos=incompatible)
