"""``rmuscle_tiny``: π0.5 in small, for two CPU cores.

Convolutional patch stem and a small ViT per view; prefix rows in the order view 0, view 1, …,
instruction bytes, one state row; bidirectional Gemma-like layers with GeGLU at F = 8 D; an action
expert with adaRMS that attends to the prefix K/V of its own layer index. Flow matching as in
π0.5: t runs from 1 (noise) to 0 (actions), the network predicts the velocity noise - actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmuscle_ros.errors import ConfigError, ObservationError
from rmuscle_ros.models.base import Ffn, Prefix, RowReuse, VlaModel
from rmuscle_ros.nn.attention import KeyValueProjection, MultiQueryAttention
from rmuscle_ros.nn.mlp import GatedMlp, Mlp
from rmuscle_ros.nn.norm import AdaRmsNorm, RmsNorm, gated_residual
from rmuscle_ros.nn.rope import rope_table
from rmuscle_ros.nn.vision import VisionTower
from rmuscle_ros.types import ACTION, PREFIX, ModelInputs, Site

ALOHA_CAMERAS = ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
ALOHA_JOINTS = tuple(
    f'follower_{side}_{joint}'
    for side in ('left', 'right')
    for joint in (
        'waist',
        'shoulder',
        'elbow',
        'forearm_roll',
        'wrist_angle',
        'wrist_rotate',
        'gripper',
    )
)


@dataclass(frozen=True)
class TinyConfig:
    """Every size of the model; the defaults are the shipped ones."""

    cameras: tuple[str, ...] = ALOHA_CAMERAS
    joint_names: tuple[str, ...] = ALOHA_JOINTS
    image_size: int = 96
    patch_size: int = 12
    vision_width: int = 128
    vision_layers: int = 2
    vision_heads: int = 4
    vision_hidden: int = 512
    width: int = 192
    hidden: int = 1536
    layers: int = 4
    heads: int = 6
    head_width: int = 32
    horizon: int = 50
    period_s: float = 0.02
    max_instruction_bytes: int = 96


@dataclass(frozen=True)
class PrefixCache:
    """Keys and values the expert reads. kv: per layer [2, 1, 1, T + H, w]; the last H rows are
    the expert's own, overwritten in every step. rope: the expert rows' table."""

    kv: tuple[Tensor, ...]
    rows: int
    rope: Tensor


@dataclass(frozen=True)
class StepConditions:
    """adaRMS modulations of all steps. layers: per layer two [S, 3, D]; final: [S, 3, D]."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    final: Tensor


# join(layer, k, v): the keys and values of all rows, given those of the computed ones.
Join = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]


class PrefixLayer(nn.Module):
    """One Gemma layer of the prefix."""

    def __init__(self, config: TinyConfig, index: int) -> None:
        super().__init__()
        self.site = Site(PREFIX, index)
        self.input_norm = RmsNorm(config.width)
        self.attention = MultiQueryAttention(config.width, config.heads, config.head_width)
        self.post_attention_norm = RmsNorm(config.width)
        self.mlp = GatedMlp(config.width, config.hidden)

    def forward(
        self, x: Tensor, rope: Tensor, mask: Tensor | None, ffn: Ffn, join: Join
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, S, D] -> (x after the layer, k, v); k and v of all T rows, as ``join`` gives."""
        q, k, v = self.attention.project(self.input_norm(x), rope)
        k, v = join(self.site.layer, k, v)
        x = x + self.attention.attend(q, k, v, mask)
        return x + ffn(self.site, self.post_attention_norm(x)), k, v


class LastPrefixLayer(nn.Module):
    """The expert reads K/V only, so the last layer's attention output and FFN do not exist."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.input_norm = RmsNorm(config.width)
        self.projection = KeyValueProjection(config.width, config.head_width)

    def forward(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, D] -> (k, v)."""
        return self.projection(self.input_norm(x), rope)


class ExpertLayer(nn.Module):
    """One layer of the action expert; both norms are adaRMS with gated residuals."""

    def __init__(self, config: TinyConfig, index: int) -> None:
        super().__init__()
        self.site = Site(ACTION, index)
        self.input_norm = AdaRmsNorm(config.width)
        self.attention = MultiQueryAttention(config.width, config.heads, config.head_width)
        self.post_attention_norm = AdaRmsNorm(config.width)
        self.mlp = GatedMlp(config.width, config.hidden)

    def forward(
        self,
        x: Tensor,
        kv: Tensor,
        cache: PrefixCache,
        modulations: tuple[Tensor, Tensor],
        ffn: Ffn,
        mask: Tensor | None = None,
    ) -> Tensor:
        """x [B, H, D]; kv [2, B, 1, T + H, w], whose last H rows are written here."""
        attention_mod, mlp_mod = modulations
        q, k, v = self.attention.project(self.input_norm(x, attention_mod), cache.rope)
        kv = self._append(kv, k, v, cache.rows)
        x = gated_residual(x, attention_mod, self.attention.attend(q, kv[0], kv[1], mask))
        return gated_residual(x, mlp_mod, ffn(self.site, self.post_attention_norm(x, mlp_mod)))

    @staticmethod
    def _append(kv: Tensor, k: Tensor, v: Tensor, rows: int) -> Tensor:
        if torch.is_grad_enabled():
            return torch.cat((kv[..., :rows, :], torch.stack((k, v))), dim=-2)
        kv[0, :, :, rows:] = k
        kv[1, :, :, rows:] = v
        return kv


class TinyVla(VlaModel):
    """See the module docstring. Engines and training call its parts; it has no ``forward``."""

    state_mean: Tensor
    state_std: Tensor
    action_mean: Tensor
    action_std: Tensor
    action_relative: Tensor

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        self.cameras, self.joint_names = config.cameras, config.joint_names
        self.image_size, self.horizon = config.image_size, config.horizon
        self.period_s, self.action_width = config.period_s, len(config.joint_names)
        width, joints = config.width, len(config.joint_names)
        self.tower = VisionTower(
            config.image_size,
            config.patch_size,
            config.vision_width,
            config.vision_layers,
            config.vision_heads,
            config.vision_hidden,
        )
        self.projector = nn.Linear(config.vision_width, width)
        self.view_embedding = nn.Parameter(torch.zeros(len(config.cameras), width))
        self.byte_embedding = nn.Embedding(256, width)
        self.state_proj = nn.Linear(joints, width)
        # cast: mypy sees only Module in a ModuleList
        self.prefix_layers = cast(
            Sequence[PrefixLayer],
            nn.ModuleList(PrefixLayer(config, i) for i in range(config.layers - 1)),
        )
        self.last_prefix_layer = LastPrefixLayer(config)
        self.action_in_proj = nn.Linear(joints, width)
        self.time_mlp = nn.Sequential(
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.expert_layers = cast(
            Sequence[ExpertLayer],
            nn.ModuleList(ExpertLayer(config, i) for i in range(config.layers)),
        )
        self.final_norm = AdaRmsNorm(width)
        self.action_out_proj = nn.Linear(width, joints)
        for name in ('state_mean', 'state_std', 'action_mean', 'action_std'):
            fill = torch.zeros if name.endswith('mean') else torch.ones
            self.register_buffer(name, fill(joints))
        # 1 where an action is a difference to the observed position, 0 where it is a position
        self.register_buffer('action_relative', torch.zeros(joints))

    def ffn_modules(self) -> dict[Site, Mlp]:
        modules: dict[Site, Mlp] = {layer.site: layer.mlp for layer in self.tower.layers}
        modules.update({layer.site: layer.mlp for layer in self.prefix_layers})
        modules.update({layer.site: layer.mlp for layer in self.expert_layers})
        return modules

    def vision(self, images: Tensor, ffn: Ffn) -> Tensor:
        return self.tower(images, ffn)

    def embed(self, features: Tensor, inputs: ModelInputs) -> Prefix:
        views = torch.tensor([self.cameras.index(camera) for camera in inputs.cameras])
        visual = self.visual_rows(features, views.to(features.device)).flatten(0, 1)
        data = inputs.instruction.encode()
        if len(data) > self.config.max_instruction_bytes:
            raise ObservationError(
                f'instruction: found {len(data)} bytes, expected at most '
                f'{self.config.max_instruction_bytes}; say it in fewer words'
            )
        text = self.byte_embedding(torch.tensor(list(data), device=visual.device))
        state = torch.from_numpy(inputs.state).to(visual.device)[None]
        x = torch.cat((visual, text, self.state_row(state)))
        rows = torch.arange(x.shape[0], device=x.device)
        count = visual.shape[0]
        return Prefix(x[None], rows[:count], rows[count:])

    def visual_rows(self, features: Tensor, views: Tensor) -> Tensor:
        """features [..., N, Dv] and view numbers [...] -> rows [..., N, D]."""
        return self.projector(features) + self.view_embedding[views].unsqueeze(-2)

    def state_row(self, state: Tensor) -> Tensor:
        """Raw joint positions [..., J] -> their row [..., D]."""
        normalised = (state - self.state_mean) / self.state_std
        return self.state_proj(normalised.to(self.state_proj.weight.dtype))

    def prefill(self, prefix: Prefix, ffn: Ffn, reuse: RowReuse | None = None) -> PrefixCache:
        return self.prefill_rows(prefix.x, None, ffn, reuse)

    def prefill_rows(
        self, x: Tensor, mask: Tensor | None, ffn: Ffn, reuse: RowReuse | None = None
    ) -> PrefixCache:
        """x [B, T, D], mask [B, 1, 1, T] of the rows that exist (training batches are padded)."""
        rows = x.shape[1]
        rope = rope_table(
            torch.arange(rows + self.horizon, device=x.device), self.config.head_width
        )
        join: Join = _all_rows
        own = rope[:, :rows]
        if reuse is not None:
            join = _joining(reuse, rows)
            x, own = x.index_select(1, reuse.rows), own.index_select(1, reuse.rows)
        kv = []
        for layer in self.prefix_layers:
            x, k, v = layer(x, own, mask, ffn, join)
            kv.append(self._with_room(k, v))
        k, v = self.last_prefix_layer(x, own)
        kv.append(self._with_room(*join(len(kv), k, v)))
        return PrefixCache(tuple(kv), rows, rope[:, rows:])

    def _with_room(self, k: Tensor, v: Tensor) -> Tensor:
        """K and V of one layer with rows for the expert's own behind them."""
        return F.pad(torch.stack((k, v)), (0, 0, 0, self.horizon))

    def step_conditions(self, times: Tensor) -> StepConditions:
        embedding = time_embedding(times, self.config.width)
        condition = self.time_mlp(embedding.to(self.action_in_proj.weight.dtype))
        layers = tuple(
            (
                layer.input_norm.modulation(condition),
                layer.post_attention_norm.modulation(condition),
            )
            for layer in self.expert_layers
        )
        return StepConditions(layers, self.final_norm.modulation(condition))

    def denoise(
        self,
        cache: PrefixCache,
        actions: Tensor,
        conditions: StepConditions,
        step: int | slice,
        ffn: Ffn,
        mask: Tensor | None = None,
    ) -> Tensor:
        """``step`` is a slice where every row of a training batch has its own time."""
        x = self.action_in_proj(actions)
        for layer, kv, (attention, mlp) in zip(
            self.expert_layers, cache.kv, conditions.layers, strict=True
        ):
            x = layer(x, kv, cache, (attention[step], mlp[step]), ffn, mask)
        return self.action_out_proj(AdaRmsNorm.forward(x, conditions.final[step]))

    def unnormalise(self, actions: Tensor, inputs: ModelInputs) -> Tensor:
        state = torch.from_numpy(inputs.state).to(self.action_std)
        targets = actions[0].to(self.action_std) * self.action_std + self.action_mean
        return targets + self.action_relative * state


def _all_rows(_layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The ``Join`` of a prefill that computes every row."""
    return k, v


def _joining(reuse: RowReuse, rows: int) -> Join:
    """Puts computed keys and values [1, 1, S, w] among the earlier ones -> [1, 1, ``rows``, w]."""
    earlier: PrefixCache = reuse.earlier
    if earlier.rows != rows:
        raise ConfigError(
            f'reuse: found an earlier prefix of {earlier.rows} rows, expected {rows}; rows can be '
            'reused only between prefixes of the same cameras and instruction length'
        )

    def join(layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        kept = earlier.kv[layer][..., :rows, :]
        return kept[0].index_copy(-2, reuse.rows, k), kept[1].index_copy(-2, reuse.rows, v)

    return join


def time_embedding(times: Tensor, width: int) -> Tensor:
    """Sine-cosine embedding with periods 4e-3 to 4, as in π0.5. times [S] -> [S, width]."""
    half = width // 2
    fraction = torch.linspace(0, 1, half, dtype=torch.float32, device=times.device)
    period = 4e-3 * (4.0 / 4e-3) ** fraction
    angle = times.float()[:, None] * (2 * math.pi / period)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)
