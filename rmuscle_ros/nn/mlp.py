"""The two FFN kinds of VLA models, with hidden neurons as first-class rows.

Every weight is stored with the neuron as its first (slowest) dimension, so that selecting
neurons gathers contiguous rows. ``forward`` is ``project(hidden(x))``: the caches need the
hidden activations in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class NeuronSlice:
    """The weights of K selected neurons, gathered. ``inp`` [G·K, D] (G = 2 when gated)."""

    inp: Tensor
    inp_bias: Tensor | None
    down: Tensor


class GatedMlp(nn.Module):
    """GeGLU as in Gemma: ``y = (gelu_tanh(x W_gate) * (x W_up)) W_down``, no bias."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.width = width
        self.gate_up_proj = nn.Parameter(torch.zeros(2, hidden, width))
        self.down_proj = nn.Parameter(torch.zeros(hidden, width))

    def hidden(self, x: Tensor) -> Tensor:
        """x [..., D] -> h [..., F]."""
        return _gated(F.linear(x, self.gate_up_proj.flatten(0, 1)))

    def project(self, h: Tensor) -> Tensor:
        """h [..., F] -> y [..., D]."""
        return h @ self.down_proj

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.hidden(x))

    def select(self, neurons: Tensor) -> NeuronSlice:
        """Gather the weights of ``neurons`` (int64 [K])."""
        inp = self.gate_up_proj.index_select(1, neurons).flatten(0, 1)
        return NeuronSlice(inp, None, self.down_proj.index_select(0, neurons))

    @staticmethod
    def hidden_of(x: Tensor, weights: NeuronSlice) -> Tensor:
        """x [..., D] -> h [..., K] of the selected neurons."""
        return _gated(F.linear(x, weights.inp))


class PlainMlp(nn.Module):
    """ViT/DiT MLP: ``y = gelu_tanh(x W_1 + b_1) W_2 + b_2``."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.width = width
        self.up_proj = nn.Parameter(torch.zeros(hidden, width))
        self.up_bias = nn.Parameter(torch.zeros(hidden))
        self.down_proj = nn.Parameter(torch.zeros(hidden, width))
        self.down_bias = nn.Parameter(torch.zeros(width))

    def hidden(self, x: Tensor) -> Tensor:
        """x [..., D] -> h [..., F]."""
        return F.gelu(F.linear(x, self.up_proj, self.up_bias), approximate='tanh')

    def project(self, h: Tensor) -> Tensor:
        """h [..., F] -> y [..., D], bias included."""
        return h @ self.down_proj + self.down_bias

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.hidden(x))

    def select(self, neurons: Tensor) -> NeuronSlice:
        """Gather the weights of ``neurons`` (int64 [K])."""
        return NeuronSlice(
            self.up_proj.index_select(0, neurons),
            self.up_bias.index_select(0, neurons),
            self.down_proj.index_select(0, neurons),
        )

    @staticmethod
    def hidden_of(x: Tensor, weights: NeuronSlice) -> Tensor:
        """x [..., D] -> h [..., K] of the selected neurons."""
        return F.gelu(F.linear(x, weights.inp, weights.inp_bias), approximate='tanh')


Mlp = GatedMlp | PlainMlp


def _gated(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.gelu(gate, approximate='tanh') * up
