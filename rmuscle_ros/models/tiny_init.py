"""Seeded initial weights of ``rmuscle_tiny`` that keep the arm near its home pose.

A flow policy without training turns noise into noise. Here the output projection inverts the
input projection, so that the velocity contains x_t / rms(x_t), which integrates the noise away;
what the untrained layers add on top depends on the observation and stays small.
"""

from __future__ import annotations

import torch
from torch import nn

from rmuscle_ros.models.tiny import TinyConfig, TinyVla

# gym-aloha's start pose: waist, shoulder, elbow, forearm_roll, wrist_angle, wrist_rotate (rad)
# and one finger (m).
HOME_ARM = (0.0, -0.96, 1.16, 0.0, -0.3, 0.0, 0.02239)
ACTION_SPREAD = (0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.001)
STATE_SPREAD = (0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01)


def untrained(seed: int, config: TinyConfig | None = None) -> TinyVla:
    """A model with weights drawn from ``seed``; same seed, same weights on every machine."""
    model = TinyVla(config or TinyConfig()).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        _fill(name, parameter, generator)
    model.action_out_proj.weight.copy_(torch.linalg.pinv(model.action_in_proj.weight))
    for layer in model.expert_layers:
        _mild_gates(layer.input_norm.dense, layer.post_attention_norm.dense)
    _mild_gates(model.final_norm.dense)
    model.action_mean.copy_(torch.tensor(HOME_ARM * 2))
    model.action_std.copy_(torch.tensor(ACTION_SPREAD * 2))
    model.state_mean.copy_(torch.tensor(HOME_ARM * 2))
    model.state_std.copy_(torch.tensor(STATE_SPREAD * 2))
    return model.eval()


def _fill(name: str, parameter: nn.Parameter, generator: torch.Generator) -> None:
    if parameter.dim() < 2:
        is_layer_norm = 'norm' in name and name.endswith('.weight') and 'dense' not in name
        is_vision = name.startswith('tower.')
        parameter.fill_(1.0 if is_layer_norm and is_vision else 0.0)
        return
    fan_in = parameter[0].numel() if 'down_proj' not in name else parameter.shape[0]
    if name.endswith('gate_up_proj'):
        fan_in = parameter.shape[-1]
    if name.endswith(('position', 'view_embedding', 'byte_embedding.weight')):
        fan_in = 1
    parameter.normal_(0, fan_in**-0.5, generator=generator)


def _mild_gates(*layers: nn.Linear) -> None:
    """Scale 0, shift 0 and gate 0.3 plus what the time says."""
    for dense in layers:
        width = dense.in_features
        dense.weight.mul_(0.1)
        dense.bias[2 * width :].fill_(0.3)
