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
    raw = scores
    if softcap:
        scores = aten.mul(aten.tanh(aten.div(scores, softcap)), softcap)
    capped = scores
    if bias is not None:
        scores = aten.add(scores, bias)
    wide = scores if softmax_precision is None else scores.to(WIDE[softmax_precision])
    weights = aten.softmax(wide, -1).to(q.dtype)
    if bias is not None:                             # a query that sees nothing has no weights
        weights = aten.where(aten.isnan(weights), aten.zeros_like(weights), weights)
    found = aten.matmul(weights, v)
    shown = {0: raw, 1: capped, 2: scores, 3: weights}[qk_matmul_output_mode]
    return heads_together(found) if is_flat else found, present_key, present_value, shown


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


# --- recurrences in the place of attention ----------------------------------------------------------------------------


@rule("LinearAttention", since=27)
def linear_attention(q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None, *, q_num_heads: int,
                     kv_num_heads: int, chunk_size: int = 64, scale: float = 0.0, update_rule: str = "gated_delta",
                     count: int) -> tuple:
    """A state for each head, which every position decays and writes to, and which queries read."""
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"LinearAttention: update_rule {update_rule!r} is not known")
    n, length, width = q.shape
    dtype, size = q.dtype, width // q_num_heads
    factor = scale or 1 / math.sqrt(size)
    wide = _C.float64 if dtype is _C.float64 else _C.float32

    def split(x: Any, heads: int) -> Any:
        return aten.reshape(x, (n, length, heads, x.shape[-1] // heads)).to(wide)

    q, k, v = split(q, q_num_heads), split(k, kv_num_heads), split(v, kv_num_heads)
    state = aten.zeros((n, kv_num_heads, k.shape[-1], v.shape[-1]), dtype=wide, device=q.device) if past is None else (
        past.to(wide))
    gate = None if decay is None else aten.exp(aten.reshape(decay, (n, length, kv_num_heads, -1)).to(wide))
    rate = None if beta is None else aten.reshape(beta, (n, length, -1, 1)).to(wide)
    found = []
    for t in range(length):
        if update_rule.startswith("gated"):
            if gate is None:
                raise ValueError(f"LinearAttention: update_rule {update_rule!r} needs decay")
            state = aten.mul(state, aten.unsqueeze(gate[:, t], -1))
        write = v[:, t]
        if update_rule.endswith("delta"):
            if rate is None:
                raise ValueError(f"LinearAttention: update_rule {update_rule!r} needs beta")
            recalled = aten.squeeze(aten.matmul(aten.unsqueeze(k[:, t], -2), state), -2)
            write = aten.mul(rate[:, t], aten.sub(write, recalled))
        state = aten.add(state, aten.mul(aten.unsqueeze(k[:, t], -1), aten.unsqueeze(write, -2)))
        read = aten.repeat_interleave(state, q_num_heads // kv_num_heads, 1)
        found.append(aten.mul(aten.squeeze(aten.matmul(aten.unsqueeze(q[:, t], -2), read), -2), factor))
    result = aten.reshape(aten.stack(found, 1), (n, length, q_num_heads * v.shape[-1])).to(dtype)
    return result, state.to(dtype if past is None else past.dtype)


@rule("CausalConvWithState", since=27)
def causal_conv_with_state(x: Any, w: Any, bias: Any = None, past: Any = None, *, activation: str = "none", count: int
                           ) -> tuple:
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"CausalConvWithState: activation should be 'none', 'silu' or 'swish', got {activation!r}")
    kept = w.shape[2] - 1
    whole = aten.constant_pad_nd(x, [kept, 0], 0) if past is None else aten.cat([past, x], 2)
    found = aten.convolution(whole, w, bias, [1], [0], [1], False, [0], w.shape[0])
    length = whole.shape[2]
    return aten.silu(found) if activation != "none" else found, aten.slice(whole, 2, length - kept, length)


def flex_attention(q: Any, k: Any, v: Any, score_mod: Any = None, score_given: tuple = (), prob_mod: Any = None,
                   prob_given: tuple = (), *, scale: float | None = None, softmax_precision: int | None = None) -> Any:
    """Attention whose scores and weights graphs change."""
    wide = WIDE[softmax_precision] if softmax_precision else _C.float64 if q.dtype is _C.float64 else _C.float32
    groups = q.shape[1] // k.shape[1]
    if isinstance(groups, int) and groups > 1:
        k, v = aten.repeat_interleave(k, groups, 1), aten.repeat_interleave(v, groups, 1)
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    scores = aten.mul(aten.matmul(q.to(wide), aten.transpose(k.to(wide), -2, -1)), factor)
    if score_mod is not None:
        scores = score_mod(scores, *score_given)[0]
    weights = aten.softmax(scores, -1)
    if prob_mod is not None:
        weights = prob_mod(weights, *prob_given)[0]
    return aten.matmul(weights, v.to(wide)).to(q.dtype)
