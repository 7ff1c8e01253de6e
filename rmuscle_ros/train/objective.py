"""The flow-matching loss of π0.5, and "where is the cube" as an auxiliary one.

A policy can infer where the cube is from the arm's own motion instead of looking, and its
validation loss does not show it. Against that shortcut, the first steps of a run see early frames
only, with the state row zeroed, and learn to tell the cube's place from a prefix row; that loss
stays until the end. Its head is no part of the shipped checkpoint.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from rmuscle_ros.models.base import Ffn
from rmuscle_ros.models.tiny import PrefixCache, TinyVla
from rmuscle_ros.nn.norm import RmsNorm
from rmuscle_ros.train.samples import Batch

# Centre (m) and spread (m) of the cube's place, for a target of about unit size.
CUBE_CENTRE = (0.1, 0.5, 0.1)
CUBE_SPREAD = (0.06, 0.06, 0.1)
TIME_ALPHA = 1.5  # flow times are Beta(1.5, 1), as in π0: more of them near the noise
TIME_MIN = 0.001


class CubeHead(nn.Module):
    """Reads the cube's place from the state row's hidden state; exists during training only."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = RmsNorm(width)
        self.out = nn.Linear(width, 3)
        self.register_buffer('centre', torch.tensor(CUBE_CENTRE), persistent=False)
        self.register_buffer('spread', torch.tensor(CUBE_SPREAD), persistent=False)

    def loss(self, row: Tensor, cubes: Tensor) -> Tensor:
        """row [B, D], cubes [B, 3] (m) -> squared error in spreads, [B]."""
        target = (cubes - self.centre) / self.spread
        return (self.out(self.norm(row)).float() - target).square().mean(dim=-1)


@dataclass(frozen=True)
class FlowDraw:
    """Noise [B, draws, H, A] and flow times [B, draws] for one batch."""

    noise: Tensor
    times: Tensor


def draw_flow(count: int, draws: int, shape: tuple[int, int], seed: tuple[int, ...]) -> FlowDraw:
    """Random numbers that depend on ``seed`` alone."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0] >> 1))
    noise = torch.randn(count, draws, *shape, generator=generator)
    uniform = torch.rand(count, draws, generator=generator)
    # Beta(a, 1) is a power of a uniform variable.
    return FlowDraw(noise, TIME_MIN + (1 - TIME_MIN) * uniform ** (1 / TIME_ALPHA))


class Objective:
    """The losses of one batch under a model and its auxiliary head."""

    def __init__(self, model: TinyVla, head: CubeHead, ffn: Ffn) -> None:
        self.model, self.head, self._ffn = model, head, ffn
        self._row: Tensor | None = None
        # The auxiliary loss reads what goes into the last prefix layer, which the model itself
        # has no use for outside that layer.
        model.last_prefix_layer.register_forward_pre_hook(self._keep_row)

    def look(self, batch: Batch) -> Tensor:
        """The auxiliary loss with a zeroed state row: [B]."""
        self.prefill(batch, with_state=False)
        return self.cube_loss(batch)

    def flow(self, batch: Batch, draw: FlowDraw) -> tuple[Tensor, Tensor]:
        """Flow-matching loss [B] and auxiliary loss [B]."""
        cache = self.prefill(batch, with_state=True)
        cube = self.cube_loss(batch)
        draws = draw.times.shape[1]
        cache = dataclasses.replace(
            cache, kv=tuple(kv.repeat_interleave(draws, dim=1) for kv in cache.kv)
        )
        actions = normalise(self.model, batch.targets, batch.states)[:, None]
        times = draw.times[..., None, None]
        noisy = times * draw.noise + (1 - times) * actions
        velocity = self.model.denoise(
            cache,
            noisy.flatten(0, 1),
            self.model.step_conditions(draw.times.flatten()),
            slice(None),
            self._ffn,
        )
        error = velocity.float() - (draw.noise - actions).flatten(0, 1)
        return error.square().mean(dim=(1, 2)).view(-1, draws).mean(dim=1), cube

    def prefill(self, batch: Batch, with_state: bool) -> PrefixCache:
        """The prefix of a batch, as ``TinyVla.embed`` lays it out."""
        model = self.model
        count, views = batch.images.shape[:2]
        features = model.vision(batch.images.flatten(0, 1), self._ffn).unflatten(0, (count, views))
        visual = model.visual_rows(features, torch.arange(views, device=features.device))
        text = model.byte_embedding(
            torch.tensor(list(batch.instruction.encode()), device=features.device)
        )
        state = model.state_row(batch.states)[:, None]
        rows = (visual.flatten(1, 2), text.expand(count, -1, -1), state * float(with_state))
        return model.prefill_rows(torch.cat(rows, dim=1), None, self._ffn)

    def cube_loss(self, batch: Batch) -> Tensor:
        """The auxiliary loss of the prefix computed last."""
        if self._row is None:
            raise RuntimeError('cube_loss: no prefix has been computed')
        return self.head.loss(self._row, batch.cubes)

    def _keep_row(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG002
        self._row = inputs[0][:, -1]


def normalise(model: TinyVla, targets: Tensor, states: Tensor) -> Tensor:
    """Joint targets [B, H, J] of observations with ``states`` [B, J] -> what the flow ends at."""
    actions = targets - model.action_relative * states[:, None]
    return (actions - model.action_mean) / model.action_std
