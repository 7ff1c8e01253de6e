"""The dense runner: every FFN as the model has it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.types import Site


class DenseFfn:
    """Implements both seams of ``models.base``: ``Ffn`` and ``StepFfn``."""

    def __init__(self, modules: Mapping[Site, Mlp]) -> None:
        self._modules = modules

    def begin_step(self, step: int) -> None:
        """Dense steps are all alike."""

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        return self._modules[site](x)
