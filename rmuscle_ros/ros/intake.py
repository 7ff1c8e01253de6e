"""From sensor topics to observations. Callbacks only check and keep; pixels are read on use."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image, JointState

from rmuscle_ros.errors import ObservationError
from rmuscle_ros.ros import conversions, qos
from rmuscle_ros.ros.sampling import JOINTS, Limits, Now, Sampler
from rmuscle_ros.ros.settings import NodeSettings, Wiring
from rmuscle_ros.types import Observation, PolicyInfo


def limits(settings: NodeSettings) -> Limits:
    return Limits(
        max_image_age_s=settings.max_image_age_s,
        max_joint_age_s=settings.max_joint_age_s,
        sync_tolerance_s=settings.sync_tolerance_s,
        by_header=settings.stamp_source == 'header',
    )


class Intake:
    """The sensor subscriptions and the sampler they fill.

    now: both clocks at this instant. report: takes the text of a QoS mismatch.
    """

    def __init__(
        self,
        node: Node,
        wiring: Wiring,
        info: PolicyInfo,
        now: Callable[[], Now],
        report: Callable[[str], None],
    ) -> None:
        settings = wiring.settings
        self.sampler = Sampler(
            wiring.camera_topics(), settings.joint_states_topic, limits(settings)
        )
        self._node = node
        self._joint_names = info.joint_names
        self._now = now
        self._report = report
        self._qos = qos.sensor_qos(settings.sensor_reliability, settings.sensor_depth)
        self._open = threading.Event()
        self._compressed = settings.compressed
        self._subscriptions: list[Subscription] = []
        kind = CompressedImage if self._compressed else Image
        for name, topic in wiring.camera_topics().items():
            self._subscribe(kind, topic, self._image_callback(name))
        self._subscribe(JointState, settings.joint_states_topic, self._on_joints)

    def open(self) -> None:
        """From now on images are kept; earlier ones are forgotten."""
        self.sampler.restart(self._now())
        self._open.set()

    def close(self) -> None:
        """Keep no more images. Joint states go on, for the hold command."""
        self._open.clear()

    def observe(self, instruction: str) -> Observation:
        """The newest observation; ObservationError says why there is none."""
        selection = self.sampler.select(self._now())
        images = {name: self._pixels(name, image) for name, image in selection.images.items()}
        return Observation(images, selection.joints, instruction, selection.stamp_s)

    def destroy(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()

    def _subscribe(self, kind: type, topic: str, callback: Callable) -> None:
        self._subscriptions.append(
            self._node.create_subscription(
                kind,
                topic,
                callback,
                self._qos,
                callback_group=MutuallyExclusiveCallbackGroup(),
                event_callbacks=qos.subscription_events(topic, self._report),
            )
        )

    def _image_callback(self, name: str) -> Callable[[Image | CompressedImage], None]:
        check = conversions.check_compressed if self._compressed else conversions.check_image

        def on_image(message: Image | CompressedImage) -> None:
            if not self._open.is_set():
                return
            try:
                check(message)
            except ObservationError as error:
                self.sampler.refuse(name, str(error), self._now())
                return
            stamp_s = conversions.to_seconds(message.header.stamp)
            self.sampler.add(name, stamp_s, self._now(), message)

        return on_image

    def _on_joints(self, message: JointState) -> None:
        try:
            positions = conversions.joint_positions(message, self._joint_names)
        except ObservationError as error:
            self.sampler.refuse(JOINTS, str(error), self._now())
            return
        stamp_s = conversions.to_seconds(message.header.stamp)
        self.sampler.add(JOINTS, stamp_s, self._now(), positions)

    def _pixels(self, name: str, message: Image | CompressedImage) -> np.ndarray:
        try:
            if self._compressed:
                return conversions.compressed_array(message)
            return conversions.image_array(message)
        except ObservationError as error:
            self.sampler.refuse(name, str(error), self._now())
            raise ObservationError(f'{name}: {error}') from error
