"""Transformer layers in evaluation: the same numbers with fewer steps between the products.

Enters: a layer whose gradient nobody wants, and a batch [N, L, E]. Leaves: the layer's result, without the module
calls, dropouts and transposed copies that training needs. Refuses by answering no: layers in training, with hooks,
tensor subclasses or weights that want a gradient take the ordinary way.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...dispatch.keys import AUTOCAST
from .. import functional as F


class FastPath:
    """Whether layers may take it; backends.mha switches it."""

    is_enabled = True


def is_plain(module: Any, *tensors: Tensor | None) -> bool:
    """Whether nothing watches the module's inner steps: no gradient, hook, subclass or transform. Mixed precision on
    the CPU does not mind: the result is then of the lower type, as in PyTorch."""
    if module.training or not FastPath.is_enabled:
        return False
    wants = _C.is_grad_enabled()
    for t in tensors:
        if t is not None and (t._keys or (wants and t.requires_grad)):
            return False
    keys, _ = _C.get_thread_keys()   # modes, transforms, autocast
    if keys == AUTOCAST:
        from ...dispatch import autocast  # noqa: PLC0415 - it is loaded where it is on

        keys = autocast.is_autocast_enabled("cuda")
    return not keys and not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


def is_simple_attention(
    attention: Any, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
) -> bool:
    """Whether one product projects queries, keys and values [N, L, E], nothing is appended to them, and masks fit."""
    if (
        attention.training
        or not attention.batch_first
        or not attention._qkv_same_embed_dim
        or attention.in_proj_bias is None
    ):
        return False
    if (
        x.dim() != 3
        or x.dtype is not attention.in_proj_weight.dtype
        or x.size(2) != attention.embed_dim
        or (is_causal and mask is None)
    ):
        return False
    batch, length, _ = x.shape
    square = (None, (length, length), (batch * attention.num_heads, length, length))
    if (None if mask is None else tuple(mask.shape)) not in square or (
        None if padding is None else tuple(padding.shape)
    ) not in (None, (batch, length)):
        return False
    kinds = all(m is None or m.dtype in (_C.bool, x.dtype) for m in (mask, padding))
    return kinds and attention.bias_k is None and attention.bias_v is None and not attention.add_zero_attn


def added(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask to be added: a boolean one becomes -inf where it is True."""
    if mask is None or mask.is_floating_point():
        return mask
    return like.new_zeros(mask.shape).masked_fill_(mask, float("-inf"))


def joined_mask(attn_mask: Tensor | None, padding: Tensor | None, x: Tensor, heads: int) -> Tensor | None:
    """Both masks as one that is added to scores [N, heads, L, L]; None without any."""
    batch, length, _ = x.shape
    mask, padding = added(attn_mask, x), added(padding, x)
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(batch, heads, length, length)
    if padding is None:
        return mask
    padding = padding.reshape(batch, 1, 1, length)
    return padding.expand(batch, 1, length, length) if mask is None else mask + padding


def attend(attention: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    """Self-attention of `x` [N, L, E] with its projections."""
    batch, length, width = x.shape
    heads = attention.num_heads
    projected = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    q, k, v = projected.view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
    mixed = F.scaled_dot_product_attention(q, k, v, mask)
    return F.linear(
        mixed.transpose(1, 2).reshape(batch, length, width), attention.out_proj.weight, attention.out_proj.bias
    )


def encode(layer: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    """One encoder layer."""
    if layer.norm_first:
        x = attend(layer.self_attn, normed(layer.norm1, x), mask).add_(x)
        return feed_forward(layer, normed(layer.norm2, x)).add_(x)
    x = normed(layer.norm1, attend(layer.self_attn, x, mask).add_(x))
    return normed(layer.norm2, feed_forward(layer, x).add_(x))


def normed(norm: Any, x: Tensor) -> Tensor:
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def feed_forward(layer: Any, x: Tensor) -> Tensor:
    first, second = layer.linear1, layer.linear2
    return F.linear(layer.activation(F.linear(x, first.weight, first.bias)), second.weight, second.bias)
