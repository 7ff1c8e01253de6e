"""The flow-matching loss of π0.5, and "where is the cube" as an auxiliary one.

A policy can infer where the cube is from the arm's own motion instead of looking, and its
validation loss does not show it. Against that shortcut, the first steps of a run see early frames
only, with the state row zeroed, and learn to tell the cube's place from a prefix row; that loss
stays until the end. Its head is no part of the shipped checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Reads the cube's place, once from the vision tower and once from the state row.

    Exists during training only.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, vision_width: int, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(vision_width, 1)
        self.tower = nn.Sequential(
            nn.Linear(vision_width, vision_width), nn.GELU(), nn.Linear(vision_width, 3)
        )
        self.norm = RmsNorm(width)
        self.row = nn.Linear(width, 3)
        self.register_buffer('centre', torch.tensor(CUBE_CENTRE), persistent=False)
        self.register_buffer('spread', torch.tensor(CUBE_SPREAD), persistent=False)

    def from_tower(self, features: Tensor) -> Tensor:
        """Features of all patches of all views [B, V * N, Dv] -> place in spreads [B, 3]."""
        attention = self.score(features).float().softmax(dim=1)
        return self.tower((attention * features).sum(dim=1)).float()

    def from_row(self, row: Tensor) -> Tensor:
        """The state row's hidden state [B, D] -> place in spreads [B, 3]."""
        return self.row(self.norm(row)).float()

    def loss(self, place: Tensor, cubes: Tensor) -> Tensor:
        """Squared error [B] of a place in spreads [B, 3] against cubes [B, 3] (m)."""
        return (place - (cubes - self.centre) / self.spread).square().mean(dim=-1)


@dataclass(frozen=True)
class FlowDraw:
    """Noise [B, draws, H, A] and flow times [B, draws] for one batch."""

    noise: Tensor
    times: Tensor

    def to(self, device: torch.device) -> FlowDraw:
        return FlowDraw(self.noise.to(device), self.times.to(device))


def draw_flow(count: int, draws: int, shape: tuple[int, int], seed: tuple[int, ...]) -> FlowDraw:
    """Random numbers that depend on ``seed`` alone."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0] >> 1))
    noise = torch.randn(count, draws, *shape, generator=generator)
    uniform = torch.rand(count, draws, generator=generator)
    # Beta(a, 1) is a power of a uniform variable.
    return FlowDraw(noise, TIME_MIN + (1 - TIME_MIN) * uniform ** (1 / TIME_ALPHA))


@dataclass(frozen=True)
class Prefilled:
    """A batch's prefix: what the expert reads, tower features [B, V * N, Dv], state row [B, D]."""

    cache: PrefixCache
    features: Tensor
    row: Tensor


class Objective:
    """The losses of one batch under a model and its auxiliary head."""

    def __init__(self, model: TinyVla, head: CubeHead, ffn: Ffn) -> None:
        self.model, self.head, self._ffn = model, head, ffn

    def look(self, batch: Batch) -> Tensor:
        """The auxiliary loss of the vision tower alone: [B]."""
        features = self._features(batch).flatten(1, 2)
        return self.head.loss(self.head.from_tower(features), batch.cubes)

    def blind(self, batch: Batch) -> Tensor:
        """The auxiliary loss of tower and prefix with a zeroed state row: [B]."""
        return self._cube_loss(self.prefill(batch, with_state=False), batch)

    def flow(self, batch: Batch, draw: FlowDraw) -> tuple[Tensor, Tensor]:
        """Flow-matching loss [B] and auxiliary loss [B]."""
        prefilled = self.prefill(batch)
        draws = draw.times.shape[1]
        cache = dataclasses.replace(
            prefilled.cache,
            kv=tuple(kv.repeat_interleave(draws, dim=1) for kv in prefilled.cache.kv),
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
        flow = error.square().mean(dim=(1, 2)).view(-1, draws).mean(dim=1)
        return flow, self._cube_loss(prefilled, batch)

    def prefill(self, batch: Batch, with_state: bool = True) -> Prefilled:
        """The prefix of a batch, its rows as ``TinyVla.embed`` lays them out."""
        model = self.model
        features = self._features(batch)
        views = torch.arange(features.shape[1], device=features.device)
        visual = model.visual_rows(features, views).flatten(1, 2)
        text = model.byte_embedding(
            torch.tensor(list(batch.instruction.encode()), device=features.device)
        )
        state = model.state_row(batch.states)[:, None] * float(with_state)
        rows = torch.cat((visual, text.expand(len(visual), -1, -1), state), dim=1)
        with _input_of(model.last_prefix_layer) as seen:
            cache = model.prefill_rows(rows, None, self._ffn)
        return Prefilled(cache, features.flatten(1, 2), seen[0][:, -1])

    def _features(self, batch: Batch) -> Tensor:
        """Tower output [B, V, N, Dv]."""
        features = self.model.vision(batch.images.flatten(0, 1), self._ffn)
        return features.unflatten(0, batch.images.shape[:2])

    def _cube_loss(self, prefilled: Prefilled, batch: Batch) -> Tensor:
        """Mean auxiliary loss [B] of tower and state row."""
        places = (self.head.from_tower(prefilled.features), self.head.from_row(prefilled.row))
        tower, row = (self.head.loss(place, batch.cubes) for place in places)
        return (tower + row) / 2


@contextmanager
def _input_of(module: nn.Module) -> Iterator[list[Tensor]]:
    """Collects the first inputs of ``module``'s calls: the model itself keeps none of them."""
    seen: list[Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()


def normalise(model: TinyVla, targets: Tensor, states: Tensor) -> Tensor:
    """Joint targets [B, H, J] of observations with ``states`` [B, J] -> what the flow ends at."""
    actions = targets - model.action_relative * states[:, None]
    return (actions - model.action_mean) / model.action_std
