"""What a reference leaves behind: expanded states, compact neuron masks, anchors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.scores import levels_of, sixteenths
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.types import Site


@dataclass(frozen=True)
class StepStates:
    """What every action FFN did in every denoise step of a reference call.

    h, y: site -> hidden activations [steps, R, F] and outputs [steps, R, D].
    """

    h: dict[Site, Tensor]
    y: dict[Site, Tensor]

    @property
    def bytes(self) -> int:
        return _bytes(self.h) + _bytes(self.y)


@dataclass(frozen=True)
class ExpandedState:
    """FFN inputs and outputs of the visual rows at every live prefix site (expanded entry).

    x, y: site -> [V, D] in the model's dtype, on its device.
    steps: the denoise steps under the entry's own noise; None unless they are asked for.
    """

    x: dict[Site, Tensor]
    y: dict[Site, Tensor]
    steps: StepStates | None = None

    @property
    def bytes(self) -> int:
        return _bytes(self.x) + _bytes(self.y) + (self.steps.bytes if self.steps else 0)


def _bytes(tensors: Mapping[Site, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def check_anchors(anchors: tuple[int, ...], steps: int) -> None:
    """Raise ConfigError unless the anchors fit a denoising of ``steps`` steps."""
    rising = all(earlier < later for earlier, later in pairwise(anchors))
    if not rising or anchors[:1] != (0,) or anchors[-1] >= steps:
        raise ConfigError(
            f'cache.anchors: found {list(anchors)}, expected rising step numbers from 0 up, below '
            f'{steps} (engine.denoise_steps); give the steps that shall be computed densely'
        )


def regular_anchors(group_len: int, steps: int) -> tuple[int, ...]:
    """An anchor every ``group_len`` steps, as in the paper."""
    return tuple(range(0, steps, group_len))


def followers(anchors: tuple[int, ...], group: int, steps: int) -> int:
    """The number of steps between anchor ``group`` and the next one, or the end."""
    return (*anchors, steps)[group + 1] - anchors[group] - 1


@dataclass(frozen=True)
class NeuronMasks:
    """Rank levels of every action neuron: level 0 holds the highest-scoring sixteenth.

    levels: uint8 [groups, sites, F], values 0..15; a group is an anchor and the steps up to the
    next. Masks of every rho_n = k/16 nest, so rho_n can be tuned without recording again.
    ``anchors``, ``steps`` and ``score`` say what they were recorded with; they are valid for no
    other denoise schedule.
    """

    levels: np.ndarray
    sites: tuple[Site, ...]
    anchors: tuple[int, ...]
    steps: int
    score: str

    @classmethod
    def from_scores(
        cls,
        scores: Tensor,
        sites: tuple[Site, ...],
        anchors: tuple[int, ...],
        steps: int,
        score: str,
    ) -> NeuronMasks:
        """scores [groups, sites, F], larger is more important."""
        return cls(levels_of(scores).cpu().numpy(), sites, anchors, steps, score)

    def of(self, group: int, site: Site) -> np.ndarray:
        """uint8 [F], the levels of one group at one site."""
        return self.levels[group, self.sites.index(site)]

    def neurons(self, group: int, site: Site, rho_n: float) -> Tensor:
        """The neurons of the mask, int64 [ceil(k/16 * F)], ascending, k = sixteenths(rho_n)."""
        return torch.from_numpy(np.flatnonzero(self.of(group, site) < sixteenths(rho_n)))

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
