"""Attention as what it is made of: products, a softmax, and their gradients."""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ..errors import UnsupportedOp
from ..printing import Value
from .table import Call, rule


def scores(query: Any, key: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    """What each query says of each key, in full precision."""
    wide = _C.float32 if query.dtype.itemsize < 4 else query.dtype
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    found = query.to(wide) @ key.to(wide).transpose(-2, -1) * factor
    lowest = found.new_full((), -math.inf)
    if causal:
        seen = found.new_ones(found.shape[-2:], dtype=_C.bool).tril()
        found = found.where(seen, lowest)
    if mask is None:
        return found
    return found.where(mask, lowest) if mask.dtype is _C.bool else found + mask.to(wide)


def forward(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None) -> tuple[Any, Any]:
    """The mix of values, and the logarithm of what each row was divided by."""
    found = scores(query, key, mask, causal, scale)
    top = found.amax(-1, keepdim=True)
    top = top.where(top != -math.inf, top.new_zeros(()))      # of a row that sees nothing
    shares = (found - top).exp()
    total = shares.sum(-1, keepdim=True)
    mixed = (shares / total.where(total != 0, total.new_ones(()))) @ value.to(found.dtype)
    return mixed.to(query.dtype), (total.log() + top).squeeze(-1)


def backward(grad: Any, query: Any, key: Any, value: Any, out: Any, sums: Any, mask: Any, causal: bool,
             scale: float | None) -> tuple[Any, Any, Any]:
    """Gradients of queries, keys and values."""
    found = scores(query, key, mask, causal, scale)
    wide = found.dtype
    known = sums.to(wide).unsqueeze(-1)
    shares = (found - known.where(known != -math.inf, known.new_zeros(()))).exp()
    g, factor = grad.to(wide), 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    to_value = shares.transpose(-2, -1) @ g
    own = (g * out.to(wide)).sum(-1, keepdim=True)
    slopes = shares * (g @ value.to(wide).transpose(-2, -1) - own) * factor
    to_query, to_key = slopes @ key.to(wide), slopes.transpose(-2, -1) @ query.to(wide)
    return to_query.to(query.dtype), to_key.to(key.dtype), to_value.to(value.dtype)


def no_draws(dropout_p: float) -> None:
    if dropout_p:
        raise UnsupportedOp(f"mlir: attention with dropout_p={dropout_p} draws random numbers, which a module cannot")


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash(call: Call, query: Value, key: Value, value: Value, dropout_p: float = 0.0, is_causal: bool = False,
          attn_mask: Value | None = None, scale: float | None = None, **rest: Any) -> Any:
    no_draws(dropout_p)
    return call.expand(forward, (query, key, value, attn_mask, is_causal, scale))


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_backward(call: Call, grad_out: Value, query: Value, key: Value, value: Value, out: Value, logsumexp: Value,
                   dropout_p: float = 0.0, is_causal: bool = False, attn_mask: Value | None = None,
                   scale: float | None = None, **rest: Any) -> Any:
    no_draws(dropout_p)
    return call.expand(backward, (grad_out, query, key, value, out, logsumexp, attn_mask, is_causal, scale))
