import pytest
import torch
import torch.nn.functional as F

from rmuscle_ros.nn.attention import KeyValueProjection, MultiQueryAttention
from rmuscle_ros.nn.mlp import GatedMlp, PlainMlp
from rmuscle_ros.nn.norm import AdaRmsNorm, RmsNorm, gated_residual
from rmuscle_ros.nn.rope import rope_table, rotate


def seeded(module):
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=generator)
    return module.requires_grad_(False)


@pytest.mark.parametrize('kind', [GatedMlp, PlainMlp])
def test_selected_neurons_are_a_slice_of_the_hidden_layer(kind):
    mlp, x = seeded(kind(6, 11)), torch.randn(5, 6)
    neurons = torch.tensor([0, 3, 10])
    weights = mlp.select(neurons)
    assert torch.allclose(mlp.hidden_of(x, weights), mlp.hidden(x)[:, neurons], atol=1e-6)
    assert torch.equal(weights.down, mlp.down_proj[neurons])


@pytest.mark.parametrize('kind', [GatedMlp, PlainMlp])
def test_forward_is_project_of_hidden(kind):
    mlp, x = seeded(kind(6, 11)), torch.randn(5, 6)
    assert torch.equal(mlp(x), mlp.project(mlp.hidden(x)))


def test_gated_mlp_is_gelu_gate_times_up():
    mlp, x = seeded(GatedMlp(4, 9)), torch.randn(3, 4)
    gate, up = mlp.gate_up_proj
    expected = (F.gelu(x @ gate.T, approximate='tanh') * (x @ up.T)) @ mlp.down_proj
    assert torch.allclose(mlp(x), expected, atol=1e-6)


def test_rms_norm_has_unit_offset():
    norm, x = RmsNorm(8), torch.randn(3, 8) * 5
    assert torch.allclose(norm(x).square().mean(-1), torch.ones(3), atol=1e-4)
    norm.weight.data.fill_(1.0)
    assert torch.allclose(norm(x).square().mean(-1), torch.full((3,), 4.0), atol=1e-3)


def test_ada_rms_modulates_and_gates():
    norm = seeded(AdaRmsNorm(6))
    condition, x, y = torch.randn(2, 6), torch.randn(3, 6), torch.randn(3, 6)
    modulation = norm.modulation(condition)[1]
    scale, shift, gate = norm.dense(condition[1]).chunk(3)
    expected = F.rms_norm(x, (6,), None, 1e-6) * (1 + scale) + shift
    assert torch.allclose(norm(x, modulation), expected, atol=1e-6)
    assert torch.allclose(gated_residual(x, modulation, y), x + gate * y, atol=1e-6)


def test_rope_scores_depend_on_distance_only():
    q, k = torch.randn(1, 8), torch.randn(1, 8)
    table = rope_table(torch.arange(40), 8)

    def score(i, j):
        return float((rotate(q, table[:, i : i + 1]) * rotate(k, table[:, j : j + 1])).sum())

    assert score(3, 7) == pytest.approx(score(30, 34), abs=1e-5)
    assert abs(score(3, 7) - score(3, 9)) > 1e-4


def test_multi_query_attention_equals_repeated_heads():
    attention = seeded(MultiQueryAttention(12, heads=3, head_width=4))
    x, rope = torch.randn(2, 5, 12), rope_table(torch.arange(5), 4)
    q, k, v = attention.project(x, rope)
    out = F.scaled_dot_product_attention(q, k.expand(q.shape), v.expand(q.shape))
    expected = attention.o_proj(out.transpose(1, 2).reshape(2, 5, 12))
    assert torch.allclose(attention.attend(q, k, v), expected, atol=1e-5)


def test_key_value_projection_rotates_keys_only():
    projection = seeded(KeyValueProjection(12, head_width=4))
    x, rope = torch.randn(1, 5, 12), rope_table(torch.arange(5), 4)
    k, v = projection(x, rope)
    plain = projection.kv_proj(x)
    assert torch.equal(v[:, 0], plain[..., 4:])
    assert torch.allclose(k[:, 0, 0], plain[:, 0, :4], atol=1e-6)
    assert not torch.allclose(k[:, 0, 1:], plain[:, 1:, :4])
