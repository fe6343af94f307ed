"""Attention with many heads as a script.

The way of a call: shapes and masks are checked, a batch is added where none was, queries, keys and values are
projected, further keys join them, heads become a batch of matrices, and these are attended to, with or without the
weights as a second result. A trace runs these bodies too: what they ask of sizes stands in its graph.
"""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import Optional, Tuple

from ..._C import Tensor
from .activations import dropout, softmax
from .language import torch
from .sampling import pad


def _check_masks(query: Tensor, padding: Optional[Tensor], mask: Optional[Tensor], heads: int) -> None:
    """Refuses masks whose dims do not fit the queries (AssertionError)."""
    dims = query.dim()
    if padding is not None:
        if padding.dim() != dims - 1:
            raise AssertionError(f"key_padding_mask must be None or {dims - 1}-D where query is {dims}-D, got"
                                 f" {padding.dim()}-D")
    if mask is not None:
        if mask.dim() < 2 or mask.dim() > 3:
            raise AssertionError(f"attn_mask must be None, 2-D or 3-D, got {mask.dim()}-D")
        if dims == 2 and mask.dim() == 3:
            if mask.shape[0] != heads or mask.shape[1] != query.shape[0]:
                raise AssertionError(f"attn_mask of 3 dims must hold a matrix for each of {heads} heads where query has"
                                     f" no batch, got {mask.shape}")


def _is_batch(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether there is a batch. Refuses sequences of other or of different ranks (AssertionError)."""
    dims = query.dim()
    if dims < 2 or dims > 3:
        raise AssertionError(f"query must be 2-D, or 3-D with a batch, got {dims}-D")
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(f"key and value must be {dims}-D as query is, got {key.dim()}-D and {value.dim()}-D")
    return dims == 3


def _head_width(width: int, expected: int, heads: int) -> int:
    """The features of one head. Refuses queries of another width, and heads that do not divide it (AssertionError)."""
    if width != expected:
        raise AssertionError(f"query must have {expected} features (embed_dim), got {width}")
    each = width // heads
    if each * heads != width:
        raise AssertionError(f"num_heads must divide embed_dim, got {heads} and {width}")
    return each


def _additive(mask: Optional[Tensor], name: str, scores: Tensor) -> Optional[Tensor]:
    """A mask as numbers to add to scores: a bool mask hides where it holds. Refuses others (AssertionError)."""
    if mask is not None:
        if not torch.is_floating_point(mask):
            if mask.dtype != 11:       # bool
                raise AssertionError(f"{name} must be of bool or of a floating type")
            mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(mask, float("-inf"))
    return mask


def _longer(mask: Optional[Tensor]) -> Optional[Tensor]:
    """A mask that lets one key more be seen."""
    return None if mask is None else pad(mask, (0, 1))


def _thirds(bias: Optional[Tensor]) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    """The biases of queries, keys and values, which are kept as one."""
    if bias is None:
        first = second = third = None
    else:
        first, second, third = bias.chunk(3)
    return first, second, third


def _parted(made: Tensor, count: int, width: int) -> Tensor:
    """Projections that lie side by side in the last dim, one after the other."""
    return made.unflatten(-1, [count, width]).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


def _needed(weight: Optional[Tensor], name: str, separate: bool) -> Tensor:
    """A weight that the way of projecting asks for. Refuses none (AssertionError)."""
    if weight is None:
        raise AssertionError(f"{name} must be given where use_separate_proj_weight is {separate}, got None")
    return weight


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor,
               bias: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values through one weight of three parts; tensors that are one take one product."""
    width = query.size(-1)
    if key is value:
        if query is key:
            made = _parted(torch.linear(query, weight, bias), 3, width)
            return made[0], made[1], made[2]
        own, others = weight.split([width, width * 2])
        if bias is None:
            own_bias = others_bias = None
        else:
            own_bias, others_bias = bias.split([width, width * 2])
        first = torch.linear(query, own, own_bias)
        made = _parted(torch.linear(key, others, others_bias), 2, width)
        return first, made[0], made[1]
    else:
        for_query, for_key, for_value = weight.chunk(3)
        return _projected_apart(query, key, value, for_query, for_key, for_value, bias)


def _projected_apart(query: Tensor, key: Tensor, value: Tensor, for_query: Tensor, for_key: Tensor, for_value: Tensor,
                     bias: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """As above, each through a weight of its own."""
    first, second, third = _thirds(bias)
    return torch.linear(query, for_query, first), torch.linear(key, for_key, second), torch.linear(
        value, for_value, third)


def _with_bias(rows: Tensor, bias: Tensor, batch: int, given: Optional[Tensor], name: str) -> Tensor:
    """Keys or values with one more, the same for all of a batch. Refuses those given ready (AssertionError)."""
    if given is not None:
        raise AssertionError(f"{name} is used as it is given: bias_k and bias_v cannot join it")
    return torch.cat([rows, bias.repeat(1, batch, 1)])


def _with_zeros(rows: Tensor, count: int, width: int) -> Tensor:
    """Keys or values of all heads with one more, of zeros."""
    return torch.cat([rows, torch.zeros([count, 1, width], dtype=rows.dtype, device=rows.device)], dim=1)


def _by_head(rows: Tensor, steps: int, count: int, width: int) -> Tensor:
    """A matrix of steps for every head of every sequence."""
    return rows.view(steps, count, width).transpose(0, 1)


def _joined(mask: Optional[Tensor], padding: Optional[Tensor], batch: int, heads: int, keys: int) -> Optional[Tensor]:
    """Both masks in one."""
    if padding is not None:
        wide = padding.view(batch, 1, 1, keys).expand(-1, heads, -1, -1).reshape(batch * heads, 1, keys)
        mask = wide if mask is None else mask + wide
    return mask


def _weighed(q: Tensor, k: Tensor, mask: Optional[Tensor], width: int, dropout_p: float) -> Tensor:
    """How much every query takes of every value."""
    scaled = q * (1.0 / float(width)) ** 0.5
    turned = k.transpose(-2, -1)
    scores = torch.bmm(scaled, turned) if mask is None else torch.baddbmm(mask, scaled, turned)
    shares = softmax(scores, dim=-1)
    return dropout(shares, p=dropout_p) if dropout_p > 0.0 else shares


def _by_sequence(mask: Optional[Tensor], batch: int, heads: int, keys: int) -> Optional[Tensor]:
    """A mask of matrices with batch and heads apart, as the fused op wants it; one matrix serves all."""
    if mask is not None:
        one = mask.dim() == 3 and mask.size(0) == 1
        mask = mask.unsqueeze(0) if one else mask.view(batch, heads, -1, keys)
    return mask


def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
        in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor],
        bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
        out_proj_bias: Optional[Tensor], training: bool = True, key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True, attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None,
        v_proj_weight: Optional[Tensor] = None, static_k: Optional[Tensor] = None, static_v: Optional[Tensor] = None,
        average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    batched = _is_batch(query, key, value)
    _check_masks(query, key_padding_mask, attn_mask, num_heads)
    padding = key_padding_mask
    if not batched:
        query = query.unsqueeze(1)
        key = key.unsqueeze(1)
        value = value.unsqueeze(1)
        padding = None if padding is None else padding.unsqueeze(0)
    steps, batch, width = query.shape
    padding = _additive(padding, "key_padding_mask", query)
    if is_causal and attn_mask is None:
        raise RuntimeError("is_causal is a hint about attn_mask: give attn_mask too")
    is_causal = is_causal and padding is None
    mask = None if is_causal and not need_weights else _additive(attn_mask, "attn_mask", query)
    head_width = _head_width(width, embed_dim_to_check, num_heads)

    if use_separate_proj_weight:
        q, k, v = _projected_apart(query, key, value, _needed(q_proj_weight, "q_proj_weight", True),
                                   _needed(k_proj_weight, "k_proj_weight", True),
                                   _needed(v_proj_weight, "v_proj_weight", True), in_proj_bias)
    else:
        q, k, v = _projected(query, key, value, _needed(in_proj_weight, "in_proj_weight", False), in_proj_bias)
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.dim() == 2 else mask
    if bias_k is not None and bias_v is not None:
        k = _with_bias(k, bias_k, batch, static_k, "static_k")
        v = _with_bias(v, bias_v, batch, static_v, "static_v")
        mask, padding = _longer(mask), _longer(padding)
    q = _by_head(q, steps, batch * num_heads, head_width)
    k = _by_head(k, k.shape[0], batch * num_heads, head_width) if static_k is None else static_k
    v = _by_head(v, v.shape[0], batch * num_heads, head_width) if static_v is None else static_v
    if add_zero_attn:
        k = _with_zeros(k, batch * num_heads, head_width)
        v = _with_zeros(v, batch * num_heads, head_width)
        mask, padding = _longer(mask), _longer(padding)
    keys = k.size(1)
    mask = _joined(mask, padding, batch, num_heads, keys)
    chance = dropout_p if training else 0.0

    if need_weights:
        shares = _weighed(q, k, mask, head_width, chance)
        rows = torch.bmm(shares, v).transpose(0, 1).contiguous().view(steps * batch, width)
        made = torch.linear(rows, out_proj_weight, out_proj_bias).view(steps, batch, width)
        shares = shares.view(batch, num_heads, steps, keys)
        if average_attn_weights:
            shares = shares.mean(dim=1)
        return (made, shares) if batched else (made.squeeze(1), shares.squeeze(0))
    else:
        mask = _by_sequence(mask, batch, num_heads, keys)
        seen = torch.scaled_dot_product_attention(
            q.view(batch, num_heads, steps, head_width), k.view(batch, num_heads, keys, head_width),
            v.view(batch, num_heads, keys, head_width), mask, chance, is_causal)
        rows = seen.permute(2, 0, 1, 3).contiguous().view(batch * steps, width)
        made = torch.linear(rows, out_proj_weight, out_proj_bias).view(steps, batch, width)
        return made if batched else made.squeeze(1), None
