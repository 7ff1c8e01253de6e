"""ROS parameters out of configuration dataclasses: declared, checked and read back in one place.

Every parameter is declared with dynamic typing and checked here, because rclpy would kill the node
for a YAML ``30`` where a double is expected; such an integer is converted. Parameters that are not
live can be set until configure, and are refused with that reason afterwards.
"""

from __future__ import annotations

import array
import dataclasses
import math
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from rmuscle_ros.config import PolicyConfig, check_value, fields_of, hint, with_values
from rmuscle_ros.errors import ConfigError, RmuscleError
from rmuscle_ros.ros.settings import Controller, NodeSettings, Wiring

_INT64 = 2**63 - 1
_NAMES = 'controllers.names'
_FOREIGN = ('qos_overrides.',)


class Parameters:
    """The node's parameters. ``apply`` is called with the live ones that change after configure.

    Raises ConfigError when a start value is wrong; keys nobody declared are one warning.
    """

    def __init__(self, node: Node, apply: Callable[[Mapping[str, Any]], None]) -> None:
        self._node = node
        self._apply = apply
        self._fields: dict[str, dataclasses.Field] = {}
        self._values: dict[str, Any] = {}
        self.configured = False
        self._declare(PolicyConfig())
        self._declare(NodeSettings())
        for name in self._values[_NAMES]:
            self._declare(Controller(), f'controllers.{_checked_name(name)}.')
        warn_of_unknown(node, self._fields)
        node.add_on_set_parameters_callback(self._on_set)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def policy_config(self) -> PolicyConfig:
        return with_values(PolicyConfig(), self._of(PolicyConfig()))

    def wiring(self) -> Wiring:
        controllers = {
            name: with_values(Controller(), self._of(Controller(), f'controllers.{name}.'))
            for name in self._values[_NAMES]
        }
        return Wiring(with_values(NodeSettings(), self._of(NodeSettings())), controllers)

    def _of(self, config: Any, prefix: str = '') -> dict[str, Any]:
        return {key: self._values[prefix + key] for key, _, _ in fields_of(config)}

    def _declare(self, config: Any, prefix: str = '') -> None:
        for key, item, _ in fields_of(config, prefix):
            override = self._node._parameter_overrides.get(key)
            value = item.default if override is None else checked(key, item, override.value)
            self._node.declare_parameter(
                key, _to_ros(value), descriptor(key, item), ignore_override=True
            )
            if value == ():
                # rclpy takes an empty list for bytes; say that it is one of names.
                empty = Parameter(key, Parameter.Type.STRING_ARRAY, [])
                self._node.set_parameters([empty])
            self._fields[key] = item
            self._values[key] = value

    def _on_set(self, changes: list[Parameter]) -> SetParametersResult:
        """Refuse with a reason, or take over what was set."""
        try:
            values = {
                change.name: self._checked_change(change)
                for change in changes
                if change.name in self._fields
            }
            live = {
                key: value for key, value in values.items() if self._fields[key].metadata['live']
            }
            if self.configured and live:
                self._apply(live)
        except Exception as error:  # noqa: BLE001, it would end the executor
            if not isinstance(error, RmuscleError):
                self._node.get_logger().error(traceback.format_exc())
            return SetParametersResult(successful=False, reason=str(error))
        self._values.update(values)
        return SetParametersResult(successful=True)

    def _checked_change(self, change: Parameter) -> Any:
        item = self._fields[change.name]
        value = checked(change.name, item, change.value)
        if value == self._values[change.name]:
            return value
        if change.name == _NAMES:
            raise ConfigError(f'{_NAMES}: fixed at start; set it in the parameter file')
        if self.configured and not item.metadata['live']:
            raise ConfigError(
                f'{change.name}: fixed after configure; deactivate and clean up the node first'
            )
        return value


def warn_of_unknown(node: Node, known: Collection[str]) -> None:
    """One warning that names all parameters the node was given and did not declare."""
    unknown = [
        f'{key}{hint(key, known)}'
        for key in sorted(node._parameter_overrides)
        if not node.has_parameter(key) and not key.startswith(_FOREIGN)
    ]
    if unknown:
        node.get_logger().warning(f'unknown parameters are ignored: {", ".join(unknown)}')


def checked(key: str, item: dataclasses.Field, value: Any) -> Any:
    """``value`` as the field wants it, or ConfigError."""
    if isinstance(item.default, tuple):
        return check_value(key, item, _listed(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f'{key}: found {value}, expected a finite number')
    return check_value(key, item, value)


def _listed(value: Any) -> Any:
    """A list for each of rclpy's kinds of arrays; what is no array stays what it is."""
    if value is None or value == b'':
        # What rclpy makes of an untyped ``[]``: nothing at all, or no bytes.
        return []
    return list(value) if isinstance(value, (array.array, list, tuple)) else value


def _checked_name(name: str) -> str:
    if name == 'names' or '.' in name:
        raise ConfigError(f'{_NAMES}: {name!r} cannot name a controller; choose another name')
    return name


def _to_ros(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def descriptor(
    key: str, item: dataclasses.Field, fixed: str = 'Fixed after configure.'
) -> ParameterDescriptor:
    """Description and range of a field; ``fixed`` says what holds for one that is not live."""
    low, high = item.metadata['minimum'], item.metadata['maximum']
    choices = item.metadata['choices']
    notes = [f'One of: {", ".join(choices)}.'] if choices else []
    notes.append('Live.' if item.metadata['live'] else fixed)
    described = ParameterDescriptor(
        name=key,
        description=item.metadata['description'],
        additional_constraints=' '.join(notes),
        dynamic_typing=True,
    )
    if low is None and high is None:
        return described
    if isinstance(item.default, float):
        lowest, highest = -math.inf if low is None else low, math.inf if high is None else high
        described.floating_point_range = [
            FloatingPointRange(from_value=float(lowest), to_value=float(highest))
        ]
    else:
        described.integer_range = [
            IntegerRange(
                from_value=-_INT64 if low is None else int(low),
                to_value=_INT64 if high is None else int(high),
            )
        ]
    return described
