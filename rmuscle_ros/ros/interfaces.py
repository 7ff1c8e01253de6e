"""What the node's core needs of the policy and of ROS, so that tests can stand in for either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rmuscle_ros.ros.sampling import Sampler
from rmuscle_ros.ros.schedule import Plan
from rmuscle_ros.types import ActionChunk, EpisodeEnd, Observation, PolicyInfo, PolicyStatus


class PolicyLike(Protocol):
    """What the node uses of ``rmuscle_ros.policy.Policy``."""

    info: PolicyInfo

    def infer(self, obs: Observation, /) -> ActionChunk: ...
    def warm_up(self) -> None: ...
    def reset(self) -> None: ...
    def end_episode(self, success: bool) -> EpisodeEnd: ...
    def tune(self, **changes: Any) -> None: ...
    def status(self) -> PolicyStatus: ...
    def close(self) -> None: ...


class Senses(Protocol):
    """Where observations come from."""

    sampler: Sampler

    def observe(self, instruction: str) -> Observation: ...


class Actuators(Protocol):
    """Where commands go; ``positions`` maps joint names to rad (m for a gripper finger)."""

    def send(self, chunk: ActionChunk, plan: Plan) -> None: ...
    def hold(self, positions: Mapping[str, float]) -> None: ...
