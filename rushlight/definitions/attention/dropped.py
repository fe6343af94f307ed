"""Attention with dropout on devices that draw inside their own kernels: the noise is a function of two numbers.

Enters: what attention/flash.py takes, the probability, and `seeds`: int64 [4] on the device, of which the first and the
third name the noise, so that backward draws it again and no scores are kept. Leaves: the result and the logarithms of
the summed exponentials (of all scores); backward, the three gradients. One call of the device's `attention` or
`attention_backward`, with `keep` and `seeds` behind the mask; where it answers NotImplemented, forms that hold all
scores serve, with noise of a generator seeded by the first number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ...op import Library, Spec, find_op
from ...op.extern import own_function
from ...op.step import Step
from .device import causal_mask, like_query, ungrouped
from .scaled import HALF, masked_scores, repeat_heads


class _Dropped(Library):
    """What both directions share."""

    batch = "loop"
    method = False
    out = False

    def is_planned(self, args: tuple) -> bool:
        return args[0].device.type not in ("cpu", "meta")


class AttentionDropped(_Dropped):
    """Attention some of whose weights are dropped, and the logarithms of the summed exponentials."""

    schema = (
        "_attention_dropped(Tensor query, Tensor key, Tensor value, Tensor seeds, float dropout_p, bool"
        " is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"
    )

    def meta(self, query, key, value, seeds, dropout_p, is_causal, mask, scale):
        shape = (*query.shape[:3], value.shape[3])
        log = _C.float32 if query.dtype in HALF else query.dtype
        return Spec(shape, query.dtype, like_query(query, shape)), Spec(tuple(query.shape[:3]), log)

    def steps(self, args, room):
        query, _, _, _, p, is_causal, _, scale = args
        return [Step(forward_step(query, p, is_causal, scale), list(range(room.next)), [], 1, 1, -1)]

    def run(self, query, key, value, seeds, dropout_p, is_causal, mask, scale):
        specs = self.meta(query, key, value, seeds, dropout_p, is_causal, mask, scale)
        outs = tuple([_C.empty(s.shape, s.strides, s.dtype, query.device) for s in specs])
        held_forward(outs, query, key, value, seeds, dropout_p, is_causal, mask, scale)
        return self.wrap(outs)

    def vjp(self, g, query, key, value, seeds, dropout_p, is_causal, attn_mask, scale, result):
        if g[0] is None:
            return {}
        out = find_op("_attention_dropped_backward")(
            g[0], query, key, value, result[0], result[1], seeds, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
        return {"query": out[0], "key": out[1], "value": out[2]}


class AttentionDroppedBackward(_Dropped):
    """Gradients of attention with dropout for query, key and value."""

    schema = (
        "_attention_dropped_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor"
        " logsumexp, Tensor seeds, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) ->"
        " (Tensor grad_query, Tensor grad_key, Tensor grad_value)"
    )
    differentiable = False

    def meta(self, grad, query, key, value, out, log, seeds, dropout_p, is_causal, mask, scale):
        shapes = [tuple(t.shape) for t in (query, key, value)]
        return tuple([Spec(shape, query.dtype, like_query(query, shape)) for shape in shapes])

    def steps(self, args, room):
        query, p, is_causal, scale = args[1], args[7], args[8], args[10]
        return [Step(backward_step(query, p, is_causal, scale), list(range(room.next)), [], 1, 1, -1)]

    def run(self, grad, query, key, value, out, log, seeds, dropout_p, is_causal, mask, scale):
        outs = tuple([t.new_empty(t.shape) for t in (query, key, value)])
        held_backward(outs, grad, query, key, value, seeds, dropout_p, is_causal, mask, scale)
        return self.wrap(outs)


def factor_of(query: Any, scale: float | None) -> float:
    return 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale


def forward_step(query: Any, p: float, is_causal: bool, scale: float | None) -> Callable:
    """What fills the result and the logarithms, given the op's tensors and these."""
    own = own_function("attention", query.device)

    def run(query: Any, key: Any, value: Any, seeds: Any, *rest: Any) -> None:
        *given, out, log = rest
        mask = given[0] if given else None
        for whole in (lambda t: t, lambda t: t.contiguous()) if own is not None else ():
            tensors = [whole(t) for t in (query, key, value)]
            found = own((out, log), *tensors, is_causal, factor_of(query, scale), mask, 1.0 - p, seeds)
            if found is not NotImplemented:
                return
        held_forward((out, log), query, key, value, seeds, p, is_causal, mask, scale)

    run.rehearses = own is not None
    return run


def backward_step(query: Any, p: float, is_causal: bool, scale: float | None) -> Callable:
    """What fills the gradients, given the op's tensors and these."""
    own = own_function("attention_backward", query.device)

    def run(grad: Any, query: Any, key: Any, value: Any, out: Any, log: Any, seeds: Any, *rest: Any) -> None:
        *given, d_query, d_key, d_value = rest
        mask, same = given[0] if given else None, key.shape[1] == query.shape[1]
        for whole in (lambda t: t, lambda t: t.contiguous()) if own is not None else ():
            tensors = [whole(t) for t in (query, repeat_heads(query, key), repeat_heads(query, value))]
            outs = (d_query, d_key, d_value) if same else (d_query, *[t.new_empty(t.shape) for t in tensors[1:]])
            found = own(
                outs, whole(grad), *tensors, out, log, is_causal, factor_of(query, scale), mask, 1.0 - p, seeds
            )
            if found is not NotImplemented:
                if not same:
                    d_key.copy_(ungrouped(outs[1], key))
                    d_value.copy_(ungrouped(outs[2], value))
                return
        held_backward((d_query, d_key, d_value), grad, query, key, value, seeds, p, is_causal, mask, scale)

    run.rehearses = own is not None
    return run


def weighed(query: Any, key: Any, seeds: Any, p: float, is_causal: bool, mask: Any, scale: float | None) -> tuple:
    """Scores, weights, and what weights are multiplied by: 0, or the reciprocal of the probability to stay."""
    scores = (query * factor_of(query, scale)) @ key.transpose(-2, -1)
    if is_causal:
        scores = scores.masked_fill(~causal_mask(query, key.shape[-2]), -math.inf)
    elif mask is not None:
        scores = masked_scores(scores, mask)
    noise = _C.Generator(query.device)
    noise.manual_seed(int(seeds[0].item()))
    kept = find_op("empty_like")(scores).bernoulli_(1.0 - p, generator=noise) / (1.0 - p)
    return scores, find_op("_safe_softmax")(scores, -1), kept


def held_forward(outs: tuple, query: Any, key: Any, value: Any, seeds: Any, p: float, *rest: Any) -> None:
    """Fill the result and the logarithms, holding all scores."""
    wide = _C.float32 if query.dtype in HALF else query.dtype
    q, k, v = (t.to(wide) for t in (query, repeat_heads(query, key), repeat_heads(query, value)))
    scores, weights, kept = weighed(q, k, seeds, p, *rest)
    outs[0].copy_((weights * kept) @ v)
    outs[1].copy_(scores.logsumexp(-1))


def held_backward(outs: tuple, grad: Any, query: Any, key: Any, value: Any, seeds: Any, p: float, *rest: Any) -> None:
    """Fill the gradients, holding all scores."""
    wide = _C.float32 if query.dtype in HALF else query.dtype
    g, q, k, v = (t.to(wide) for t in (grad, query, repeat_heads(query, key), repeat_heads(query, value)))
    _, weights, kept = weighed(q, k, seeds, p, *rest)
    slopes = find_op("_softmax_backward")((g @ v.transpose(-2, -1)) * kept, weights, -1) * factor_of(query, rest[-1])
    outs[0].copy_(slopes @ k)
    outs[1].copy_(ungrouped(slopes.transpose(-2, -1) @ q, key))
    outs[2].copy_(ungrouped((weights * kept).transpose(-2, -1) @ g, value))
