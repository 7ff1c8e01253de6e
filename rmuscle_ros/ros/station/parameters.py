"""The simulated station's settings as ROS parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from rmuscle_ros.config import fields_of, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.ros.parameters import checked, descriptor, warn_of_unknown
from rmuscle_ros.ros.station.settings import StationConfig


class StationParameters:
    """Declares the fields of ``StationConfig``; those that are not live are fixed at start.

    Raises ConfigError when a start value is wrong; keys nobody declared are one warning.
    """

    def __init__(self, node: Node) -> None:
        self._fields: dict[str, dataclasses.Field] = {}
        values: dict[str, Any] = {}
        for key, item, _ in fields_of(StationConfig()):
            override = node._parameter_overrides.get(key)
            values[key] = item.default if override is None else checked(key, item, override.value)
            described = descriptor(key, item, fixed='Fixed at start.')
            node.declare_parameter(key, values[key], described, ignore_override=True)
            self._fields[key] = item
        self.config = with_values(StationConfig(), values)
        warn_of_unknown(node, self._fields)
        node.add_on_set_parameters_callback(self._on_set)

    def _on_set(self, changes: list[Parameter]) -> SetParametersResult:
        try:
            values = {
                change.name: self._checked_change(change)
                for change in changes
                if change.name in self._fields
            }
            self.config = with_values(self.config, values)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _checked_change(self, change: Parameter) -> Any:
        item = self._fields[change.name]
        value = checked(change.name, item, change.value)
        if value != getattr(self.config, change.name) and not item.metadata['live']:
            raise ConfigError(f'{change.name}: fixed at start; set it in the parameter file')
        return value
