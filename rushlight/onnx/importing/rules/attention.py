"""Attention, and the rotations of positions."""

from __future__ import annotations

import math
from typing import Any

from .... import _C, ops
from ..table import rule

aten = ops.aten
WIDE = {1: _C.float32, 10: _C.float16, 11: _C.float64, 16: _C.bfloat16}


def heads_apart(x: Any, count: int | None, what: str) -> Any:
    """[batch, positions, heads * size] as [batch, heads, positions, size]."""
    if x.ndim == 4:
        return x
    if not count:
        raise ValueError(f"Attention: {what} of 3 dims needs the number of heads")
    n, positions, width = x.shape
    return aten.permute(aten.reshape(x, (n, positions, count, width // count)), (0, 2, 1, 3))


def heads_together(x: Any) -> Any:
    n, count, positions, size = x.shape
    return aten.reshape(aten.permute(x, (0, 2, 1, 3)), (n, positions, count * size))


def _mask_of(q: Any, positions: Any, total: Any, past: Any, is_causal: int, mask: Any, lengths: Any, left: int,
             right: int) -> Any:
    """What is added to the scores: 0 where a position is seen, minus infinity where not."""
    found = None
    queries = aten.arange(positions, device=q.device).reshape(-1, 1)
    keys = aten.arange(total, device=q.device).reshape(1, -1)
    if lengths is not None:                          # keys of which the last are not there, a number for each batch
        own = aten.reshape(lengths, (-1, 1, 1, 1))
        offset = aten.sub(own, positions)
        queries = aten.add(queries, offset)
        found = aten.lt(keys, own)
    else:
        queries = queries + past
    if is_causal:
        seen = aten.le(keys, queries)
        found = seen if found is None else aten.logical_and(found, seen)
    if left >= 0:
        seen = aten.ge(keys, queries - left)
        found = seen if found is None else aten.logical_and(found, seen)
    if right >= 0:
        seen = aten.le(keys, queries + right)
        found = seen if found is None else aten.logical_and(found, seen)
    bias = None
    if mask is not None:
        short = total - mask.shape[-1]
        if isinstance(short, int) and short > 0:     # a mask may be shorter than the keys: what is beyond is not seen
            mask = aten.constant_pad_nd(mask, [0, short], False if mask.dtype is _C.bool else float("-inf"))
        if mask.dtype is _C.bool:
            found = mask if found is None else aten.logical_and(found, mask)
        else:
            bias = mask.to(q.dtype)
    if found is None:
        return bias
    hidden = aten.where(found, aten.zeros((), dtype=q.dtype, device=q.device),
                        aten.full((), float("-inf"), dtype=q.dtype, device=q.device))
    return hidden if bias is None else aten.add(bias, hidden)


@rule("Attention", since=23, closed=(6,))
def attention(q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None,
              lengths: Any = None, *, is_causal: int = 0, kv_num_heads: int | None = None,
              q_num_heads: int | None = None, qk_matmul_output_mode: int = 0, scale: float | None = None,
              softcap: float = 0.0, softmax_precision: int | None = None, left_window_size: int = -1,
              right_window_size: int = -1, count: int) -> tuple:
    is_flat = q.ndim == 3
    q, k = heads_apart(q, q_num_heads, "Q"), heads_apart(k, kv_num_heads, "K")
    v = heads_apart(v, kv_num_heads, "V")
    past = past_key.shape[2] if past_key is not None else 0
    if past_key is not None:
        k, v = aten.cat([past_key, k], 2), aten.cat([past_value, v], 2)
    present_key, present_value = k, v
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    bias = _mask_of(q, q.shape[2], k.shape[2], past, is_causal, mask, lengths, left_window_size, right_window_size)
    groups = q.shape[1] // k.shape[1]
    if isinstance(groups, int) and groups > 1:
        k, v = aten.repeat_interleave(k, groups, 1), aten.repeat_interleave(v, groups, 1)
    if count <= 3 and not softcap and softmax_precision is None and bias is None:
        found = aten.scaled_dot_product_attention(q, k, v, scale=factor)
        return heads_together(found) if is_flat else found, present_key, present_value
    root = math.sqrt(factor) if factor >= 0 else None
    if root is not None:
        scores = aten.matmul(aten.mul(q, root), aten.mul(aten.transpose(k, -2, -1), root))
    else:
        scores = aten.mul(aten.matmul(q, aten.transpose(k, -2, -1)), factor)
    seen = [scores]
    if softcap:
        scores = aten.mul(aten.tanh(aten.div(scores, softcap)), softcap)
    capped = scores
    if bias is not None:
        scores = aten.add(scores, bias)
    seen += [scores, capped] if qk_matmul_output_mode else []
    wide = scores if softmax_precision is None else scores.to(WIDE[softmax_precision])
    weights = aten.softmax(wide, -1).to(q.dtype)
    weights = aten.where(aten.isnan(weights), aten.zeros_like(weights), weights) if bias is not None else weights
    found = aten.matmul(weights, v)
    shown = {0: seen[0], 1: capped, 2: scores, 3: weights} if _CAP_FIRST else {
        0: seen[0], 1: scores, 2: capped, 3: weights}
    return (heads_together(found) if is_flat else found, present_key, present_value, shown[qk_matmul_output_mode])


_CAP_FIRST = False


@rule("RotaryEmbedding", since=23, closed=(3,))
def rotary_embedding(x: Any, cosines: Any, sines: Any, positions: Any = None, *, interleaved: int = 0,
                     num_heads: int | None = None, rotary_embedding_dim: int = 0) -> Any:
    is_flat = x.ndim == 3
    if is_flat:
        if not num_heads:
            raise ValueError("RotaryEmbedding: an input of 3 dims needs num_heads")
        n, length, width = x.shape
        split = aten.reshape(x, (n, length, num_heads, width // num_heads))
    else:
        split = aten.permute(x, (0, 2, 1, 3))
    found = rotated(split, cosines, sines, positions, interleaved, rotary_embedding_dim)
    return aten.reshape(found, tuple(x.shape)) if is_flat else aten.permute(found, (0, 2, 1, 3))


def rotated(x: Any, cosines: Any, sines: Any, positions: Any, interleaved: int, width: int) -> Any:
    """[batch, positions, heads, size], the first `width` of each head turned by its position's angles."""
    width = width or x.shape[-1]
    if positions is not None:
        cosines, sines = cosines[positions], sines[positions]
    cosines, sines = aten.unsqueeze(cosines[..., : width // 2], 2), aten.unsqueeze(sines[..., : width // 2], 2)
    turned, kept = x[..., :width], x[..., width:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : width // 2], turned[..., width // 2 :]
    real = aten.sub(aten.mul(cosines, a), aten.mul(sines, b))
    imaginary = aten.add(aten.mul(sines, a), aten.mul(cosines, b))
    if interleaved:
        found = aten.flatten(aten.stack([real, imaginary], -1), -2)
    else:
        found = aten.cat([real, imaginary], -1)
    return aten.cat([found, kept], -1)
