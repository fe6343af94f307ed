"""Whole attention layers in one op, as modules scripted by PyTorch call them when they do not train.

Enters: the tensors of a layer. Leaves: what the layer's parts give one after another. Inputs have the batch first.
Refuses nested tensors, which these layers would make of padded ones: scripts of PyTorch only do so on request.
"""

from __future__ import annotations

from typing import Any

from ..base import late


def attention(query: Any, key: Any, value: Any, size: int, heads: int, qkv_weight: Any, qkv_bias: Any,
              proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True, average: bool = True,
              mask_type: int | None = None) -> tuple[Any, Any]:
    """`_native_multi_head_attention`: results, and weights (averaged over heads) or an empty tensor."""
    torch = late.provided("package")
    parts = [torch.nn.functional.linear(given, weight, bias).unflatten(-1, (heads, -1)).transpose(1, 2)
             for given, weight, bias in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)]
    q, k, v = parts
    scores = q.mul(q.shape[-1] ** -0.5).matmul(k.transpose(-2, -1))
    if mask is not None:
        held = mask[:, None, None, :] if mask_type == 1 else mask
        scores = scores.masked_fill(held, float("-inf")) if held.dtype is torch.bool else scores + held
    weights = scores.softmax(-1)
    out = weights.matmul(v).transpose(1, 2).flatten(2)
    shown = (weights.mean(1) if average else weights) if need_weights else query.new_empty(0)
    return torch.nn.functional.linear(out, proj_weight, proj_bias), shown


def encoder_layer(src: Any, size: int, heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
                  use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any,
                  norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any,
                  ffn_bias_2: Any, mask: Any = None, mask_type: int | None = None) -> Any:
    """`_transformer_encoder_layer_fwd`: attention and two linear layers, each with its norm before or behind."""
    F = late.provided("package").nn.functional  # noqa: N806 - its usual name

    def first(x: Any) -> Any:
        return F.layer_norm(x, (size,), norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return F.layer_norm(x, (size,), norm_weight_2, norm_bias_2, eps)

    def attended(x: Any) -> Any:
        return attention(x, x, x, size, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True,
                         mask_type)[0]

    def fed(x: Any) -> Any:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attended(first(src))
        return x + fed(second(x))
    x = first(src + attended(src))
    return second(x + fed(x))
