"""What every policy family offers to the engine, and the FFN seam it must use.

A call walks through ``vision`` -> ``embed`` -> ``prefill`` -> ``denoise`` (once per step). Models
own attention, norms, embeddings and residuals; every FFN goes through the ``ffn`` they are given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import ModelInputs, Site


class Ffn(Protocol):
    """``ffn(site, x) -> y``: x and y [B, T, D]; y includes the down-projection bias."""

    def __call__(self, site: Site, x: Tensor) -> Tensor: ...


class StepFfn(Ffn, Protocol):
    """The seam of the action stack; it is told which denoise step begins."""

    def begin_step(self, step: int) -> None: ...


@dataclass(frozen=True)
class Prefix:
    """Embedded rows of one call, without padding (batch 1).

    x: [1, T, D]; visual, text: int64 row numbers that partition 0..T-1.
    """

    x: Tensor
    visual: Tensor
    text: Tensor


@dataclass(frozen=True)
class RowReuse:
    """Which prefix rows a prefill computes; the others take their K/V from an earlier call.

    rows: int64 [S] to compute, ascending. earlier: what the earlier prefill of a prefix with as
    many rows returned. The computed rows attend to the K/V of all rows; of the others nothing is
    computed in any layer, so the ``ffn`` sees [1, S, D].
    """

    rows: Tensor
    earlier: Any


class VlaModel(nn.Module, ABC):
    """A VLA with a dense vision tower, a prefix and a flow-matching action head."""

    cameras: tuple[str, ...]
    image_size: int
    joint_names: tuple[str, ...]
    horizon: int
    action_width: int
    period_s: float

    @abstractmethod
    def ffn_modules(self) -> dict[Site, Mlp]:
        """Every live FFN by its site, in the order of execution."""

    @abstractmethod
    def vision(self, images: Tensor, ffn: Ffn) -> Tensor:
        """images [V, S, S, 3] uint8 of the present cameras -> tower output [V, N, Dv]."""

    @abstractmethod
    def embed(self, features: Tensor, inputs: ModelInputs) -> Prefix:
        """Tower output, instruction and state of one call -> its prefix rows."""

    @abstractmethod
    def prefill(self, prefix: Prefix, ffn: Ffn, reuse: RowReuse | None = None) -> Any:
        """Prefix rows -> what the action head reads (K/V per layer).

        Raises ConfigError for a ``reuse`` that does not fit the prefix.
        """

    @abstractmethod
    def step_conditions(self, times: Tensor) -> Any:
        """Everything that depends on the flow time alone, for all steps; times [S], fp32."""

    @abstractmethod
    def denoise(self, cache: Any, actions: Tensor, conditions: Any, step: int, ffn: Ffn) -> Tensor:
        """Noisy normalised actions [1, H, A] -> velocity [1, H, A]."""

    @abstractmethod
    def unnormalise(self, actions: Tensor, inputs: ModelInputs) -> Tensor:
        """Normalised actions [1, H, A] -> joint targets [H, J], rad (m for grippers); fp32."""
