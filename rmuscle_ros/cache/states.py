"""What a reference leaves behind: expanded prefix states and compact neuron masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.scores import levels_of, sixteenths
from rmuscle_ros.types import Site


@dataclass(frozen=True)
class PrefixState:
    """FFN inputs and outputs of the visual rows at every live prefix site (expanded entry).

    x, y: site -> [V, D] in the model's dtype, on its device.
    """

    x: dict[Site, Tensor]
    y: dict[Site, Tensor]

    @property
    def bytes(self) -> int:
        tensors = (*self.x.values(), *self.y.values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True)
class NeuronMasks:
    """Rank levels of every action neuron: level 0 holds the highest-scoring sixteenth.

    levels: uint8 [groups, sites, F], values 0..15. Masks of every rho_n = k/16 nest, so rho_n
    can be tuned without recording again. ``group_len`` and ``steps`` say which denoise schedule
    they were recorded with; they are valid for no other.
    """

    levels: np.ndarray
    sites: tuple[Site, ...]
    group_len: int
    steps: int

    @classmethod
    def from_scores(
        cls, scores: Tensor, sites: tuple[Site, ...], group_len: int, steps: int
    ) -> NeuronMasks:
        """scores [groups, sites, F], larger is more important."""
        return cls(levels_of(scores).cpu().numpy(), sites, group_len, steps)

    def neurons(self, group: int, site: Site, rho_n: float) -> Tensor:
        """The neurons of the mask, int64 [ceil(k/16 * F)], ascending, k = sixteenths(rho_n)."""
        levels = self.levels[group, self.sites.index(site)]
        return torch.from_numpy(np.flatnonzero(levels < sixteenths(rho_n)))

    def pack(self) -> np.ndarray:
        """Two levels per byte: uint8 [groups, sites, ceil(F / 2)]; low nibble first."""
        width = self.levels.shape[-1]
        even = np.pad(self.levels, ((0, 0), (0, 0), (0, width % 2)))
        return even[..., 0::2] | (even[..., 1::2] << 4)

    @staticmethod
    def unpack(packed: np.ndarray, width: int) -> np.ndarray:
        """The inverse of ``pack`` for ``width`` = F neurons."""
        levels = np.empty((*packed.shape[:-1], packed.shape[-1] * 2), np.uint8)
        levels[..., 0::2] = packed & 15
        levels[..., 1::2] = packed >> 4
        return np.ascontiguousarray(levels[..., :width])
