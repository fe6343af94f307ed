"""Attention on plugged-in devices: by a function of the device's own, or holding all scores.

Enters: what the ops of attention/flash.py get, on a device that is not the CPU. Leaves: the one step of their plans, a
call of the device's `attention` (forward) or `attention_backward`:

    attention((result, logarithms), query, key, value, causal, scale, mask=None)
    attention_backward((grad_query, grad_key, grad_value), grad, query, key, value, result, logarithms, causal, scale,
                       mask=None)

which fill their first argument or return NotImplemented; a mask is given only where there is one. The forms made of
matrix products serve then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ...base.assertions import sym_sqrt
from ...op import find_op
from ...op.extern import own_function
from .scaled import HALF, causal_mask, masked_scores, repeat_heads


def forward_step(query: Any, is_causal: bool, mask: Any, scale: float | None) -> Callable:
    """What fills the result and the logarithms, given the op's tensors and these."""
    wide = _C.float32 if query.dtype in HALF else query.dtype
    own = own_function("attention", query.device)

    def run(query: Any, key: Any, value: Any, *rest: Any) -> None:
        *given, out, log = rest
        factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
        if own is not None:
            for whole in (lambda t: t, lambda t: t.contiguous()):
                if own((out, log), *map(whole, (query, key, value)), is_causal, factor, *given) is not NotImplemented:
                    return
        if query.shape[2] == 1 and not is_causal and one_query(out, log, query, key, value, factor, given):
            return
        q, k, v = (t.to(wide) for t in (query, repeat_heads(query, key), repeat_heads(query, value)))
        scores = (q * factor) @ k.transpose(-2, -1)
        if is_causal:
            scores = scores.masked_fill(~causal_mask(q, k.shape[-2]), -math.inf)
        elif given:
            scores = masked_scores(scores, given[0])
        out.copy_(find_op("_safe_softmax")(scores, -1) @ v)
        log.copy_(scores.logsumexp(-1))

    run.rehearses = own is not None
    return run


def one_query(
    out: Any, log: Any, query: Any, key: Any, value: Any, factor: float, given: Sequence[Any]
) -> bool:
    """Fill the result for a single query of a half type, reading keys and values once and as they are: query heads that
    share them are rows of one product. False where the device has no product of halves with a wide result,

        _wide_product(out, a, b)        float32 [n, rows, columns] of [n, rows, inner] by rows and [n, inner, columns]
    """
    wide_product = own_function("_wide_product", query.device)
    if wide_product is None or query.dtype not in HALF:
        return False
    (batch, heads, _, width), (own, keys) = query.shape, key.shape[1:3]
    rows = query.reshape(batch, own, heads // own, width)
    scores = _C.empty((batch, own, heads // own, keys), None, _C.float32, query.device)
    if batch == 1 or key.stride(0) == own * key.stride(1):
        pieces = [(scores.flatten(0, 1), rows.flatten(0, 1), key.flatten(0, 1))]
    else:
        pieces = list(zip(scores, rows, key, strict=True))
    if any(wide_product(s, r, k.transpose(-2, -1)) is NotImplemented for s, r, k in pieces):
        return False
    scores = (scores * factor).reshape(batch, heads, 1, keys)
    if given:
        scores = masked_scores(scores, given[0])
    weights = find_op("_safe_softmax")(scores, -1).to(query.dtype).reshape(rows.shape[:3] + (keys,))
    out.copy_((weights @ value).reshape(out.shape))
    log.copy_(scores.logsumexp(-1))
    return True


def backward_step(query: Any, is_causal: bool, mask: Any, scale: float | None) -> Callable:
    """What fills the gradients, given the op's tensors and these."""
    own = own_function("attention_backward", query.device)

    def run(grad: Any, query: Any, key: Any, value: Any, out: Any, log: Any, *rest: Any) -> None:
        *given, d_query, d_key, d_value = rest
        factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
        same = key.shape[1] == query.shape[1]
        for whole in (lambda t: t, lambda t: t.contiguous()) if own is not None else ():
            tensors = [whole(t) for t in (query, repeat_heads(query, key), repeat_heads(query, value))]
            outs = (d_query, d_key, d_value) if same else (d_query, *[t.new_empty(t.shape) for t in tensors[1:]])
            if own(outs, whole(grad), *tensors, out, log, is_causal, factor, *given) is not NotImplemented:
                if not same:
                    d_key.copy_(ungrouped(outs[1], key))
                    d_value.copy_(ungrouped(outs[2], value))
                return
        wide = _C.float32 if query.dtype in HALF else query.dtype
        wanted = (grad, query, key, value)
        result = gradients(*(t.to(wide) for t in wanted), is_causal, given[0] if given else None, scale)
        for target, source in zip((d_query, d_key, d_value), result, strict=True):
            target.copy_(source)

    run.rehearses = own is not None
    return run


def gradients(
    g: Any, query: Any, key: Any, value: Any, is_causal: bool, mask: Any, scale: float | None, g_log: Any = None
) -> tuple[Any, Any, Any]:
    """The gradients as differentiable expressions that hold all scores; `g_log` is the gradient of the logarithms."""
    factor = 1.0 / sym_sqrt(query.shape[-1]) if scale is None else scale
    keys, values = repeat_heads(query, key), repeat_heads(query, value)
    scores = (query * factor) @ keys.transpose(-2, -1)
    if is_causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:], dtype=_C.bool).tril().logical_not(), -math.inf)
    if mask is not None:
        scores = masked_scores(scores, mask)
    weights = find_op("_safe_softmax")(scores, -1)
    slopes = find_op("_softmax_backward")(g @ values.transpose(-2, -1), weights, -1)
    slopes = (slopes if g_log is None else slopes + weights * g_log.unsqueeze(-1)) * factor
    d_key, d_value = slopes.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ g
    return slopes @ keys, ungrouped(d_key, key), ungrouped(d_value, value)


def ungrouped(d: Any, like: Any) -> Any:
    """Gradients of repeated heads, summed over the repetitions."""
    heads = like.shape[1]
    return d if d.shape[1] == heads else d.reshape(d.shape[0], heads, -1, *d.shape[2:]).sum(2)


def like_query(query: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the result: heads lie inside positions where the query's do."""
    if query.stride(1) < query.stride(2) and shape[1] > 1 and shape[2] > 1:
        heads, length, width = shape[1:]
        return (length * heads * width, width, heads * width, 1)
    return dense(shape)


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a new tensor."""
    strides, reach = [], 1
    for n in reversed(shape):
        strides.append(reach)
        reach *= n
    return tuple(reversed(strides))
