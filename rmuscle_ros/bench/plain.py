"""``rmuscle_tiny`` composed by hand, without the FFN seam, sampler or engine.

The oracle of the dense path: the engine's dense call must equal it to the bit, and cost at most
3 % more.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rmuscle_ros.models.tiny import PrefixCache, StepConditions, TinyVla
from rmuscle_ros.nn.norm import AdaRmsNorm, gated_residual
from rmuscle_ros.nn.rope import rope_table


def plain_prefill(model: TinyVla, x: Tensor) -> PrefixCache:
    """Prefix rows [1, T, D] -> K/V of every layer, every FFN called directly."""
    rows = x.shape[1]
    rope = rope_table(torch.arange(rows + model.horizon), model.config.head_width)
    kv = []
    for layer in model.prefix_layers:
        q, k, v = layer.attention.project(layer.input_norm(x), rope[:, :rows])
        x = x + layer.attention.attend(q, k, v)
        x = x + layer.mlp(layer.post_attention_norm(x))
        kv.append(torch.stack((k, v)))
    last = model.last_prefix_layer
    kv.append(torch.stack(last.projection(last.input_norm(x), rope[:, :rows])))
    kv = [F.pad(layer_kv, (0, 0, 0, model.horizon)) for layer_kv in kv]
    return PrefixCache(tuple(kv), rows, rope[:, rows:])


def plain_denoise(
    model: TinyVla, cache: PrefixCache, conditions: StepConditions, noise: Tensor, steps: int
) -> Tensor:
    """noise [1, H, A] -> normalised actions [1, H, A]."""
    actions = noise
    for step in range(steps):
        x = model.action_in_proj(actions)
        for layer, kv, (attention_mods, mlp_mods) in zip(
            model.expert_layers, cache.kv, conditions.layers, strict=True
        ):
            attention_mod, mlp_mod = attention_mods[step], mlp_mods[step]
            q, k, v = layer.attention.project(layer.input_norm(x, attention_mod), cache.rope)
            kv[0, :, :, cache.rows :] = k
            kv[1, :, :, cache.rows :] = v
            x = gated_residual(x, attention_mod, layer.attention.attend(q, kv[0], kv[1]))
            x = gated_residual(x, mlp_mod, layer.mlp(layer.post_attention_norm(x, mlp_mod)))
        x = AdaRmsNorm.forward(x, conditions.final[step])
        actions = actions - model.action_out_proj(x) / steps
    return actions
