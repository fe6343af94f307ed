"""Scaled dot product attention: the public op, which chooses a form, and the form made of matrix products.

Enters: query [..., L, E], key [..., S, E], value [..., S, Ev] of one floating type; a mask that is added to the scores
(floating) or says which of them count (bool). Leaves: softmax(query @ key^T * scale + mask) @ value. Refuses: what
PyTorch refuses, and nothing else. The form that never holds all scores is in attention/flash.py; it serves calls
without dropout and without a gradient for the mask. Dropout draws its noise over the scores, in PyTorch's order, or on
devices with an attention of their own inside that (attention/dropped.py). On CUDA devices PyTorch's order is one of its
own in single precision (`drops_in_order`).
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...base.assertions import sym_sqrt
from ...base.shape import reaches
from ...op import Composite, Meta, find_op
from ...op.extern import own_function
from ...op.fused import decayed, in_rows
from ...rules import levels
from ..norm.rows import _AlongDim

FLOATS = (_C.float32, _C.float64, _C.float16, _C.bfloat16)
HALF = (_C.float16, _C.bfloat16)
MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE = range(5)
# forms callers allow; nn.attention.sdpa_kernel narrows it
ENABLED: set[int] = {MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE}
# scores of a matrix from which inputs that are not 4-D are reshaped to save holding them
LARGE = 64 * 64


class SafeSoftmax(_AlongDim):
    """softmax whose rows without any score above -inf are zeros rather than NaN."""

    schema = "_safe_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    method = False

    def own_dtype(self, args):
        return args[2] is None or args[2] is args[0].dtype

    def run(self, input, dim, dtype):
        return super().run(input if dtype is None else input.to(dtype), dim, None)

    def compute(self, input, dim, dtype):
        top = input.amax(dim, keepdim=True)
        e = decayed(input - top.masked_fill(top == -math.inf, 0.0))
        total = e.sum(dim, keepdim=True)
        return in_rows("mul", e, total.masked_fill(total == 0, 1.0).reciprocal())

    def vjp(self, g, input: Meta, result, dim):
        return {"input": find_op("_softmax_backward")(g, result, dim).to(input.dtype)}


class AttentionMath(Composite):
    """Attention through matrix products that hold all scores; returns them as well."""

    schema = (
        "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float"
        " dropout_p=0.0, bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False)"
        " -> (Tensor, Tensor)"
    )
    method = False
    out = False

    def compute(self, query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale, enable_gqa):
        if is_causal and attn_mask is not None:
            raise RuntimeError(
                "scaled_dot_product_attention: is_causal=True takes no attn_mask. Put both into one mask."
            )
        own = query.dtype
        if own in HALF:   # scores are kept in single precision
            query, key, value = query.to(_C.float32), key.to(_C.float32), value.to(_C.float32)
        if enable_gqa:
            key, value = repeat_heads(query, key), repeat_heads(query, value)
        factor = scale if scale is not None else 1.0 / sym_sqrt(query.shape[-1]) if query.shape[-1] else math.inf
        # Half of the scale goes to either side: products of large elements then stay in range.
        root = sym_sqrt(abs(factor))
        scores = (query * (-root if factor < 0 else root)) @ (key.transpose(-2, -1) * root)
        if is_causal:
            scores = scores.masked_fill(~causal_mask(query, key.shape[-2]), -math.inf)
        elif attn_mask is not None:
            scores = masked_scores(scores, attn_mask)
        weights = find_op("_safe_softmax")(scores, -1)
        if dropout_p > 0 and dropout_mask is None:
            weights = find_op("dropout")(weights, dropout_p, True)
        elif dropout_mask is not None:
            kept = weights.masked_fill(~dropout_mask, 0.0)
            return ((kept * (1.0 / (1.0 - dropout_p))) @ value).to(own), kept.to(own)
        return (weights @ value).to(own), weights.to(own)


def causal_mask(query: Any, keys: int) -> Any:
    """Query i counts keys up to the i-th: ones on and below the diagonal."""
    return query.new_ones((query.shape[-2], keys), dtype=_C.bool).tril()


def masked_scores(scores: Any, mask: Any) -> Any:
    """Scores plus a mask, which must not enlarge them."""
    if mask.dtype is _C.bool:
        mask = mask.new_zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, -math.inf)
    result = scores + mask.to(scores.dtype)
    if result.shape != scores.shape:
        raise RuntimeError(
            f"scaled_dot_product_attention: scores of shape {list(scores.shape)} do not match the shape"
            f" {list(result.shape)} that attn_mask broadcasts them to"
        )
    return result


def repeat_heads(query: Any, keys: Any) -> Any:
    """Keys (or values) with every head repeated until there are as many as query heads."""
    if query.ndim < 3 or keys.ndim < 3:
        raise IndexError(
            f"scaled_dot_product_attention: enable_gqa needs a head dimension (-3), got {query.ndim}-D and"
            f" {keys.ndim}-D tensors"
        )
    heads, own = query.shape[-3], keys.shape[-3]
    if own == heads:
        return keys
    if not own or heads % own:
        raise RuntimeError(
            "scaled_dot_product_attention: expected the heads of query to be a multiple of those of key and value, got"
            f" {heads} and {own}"
        )
    return keys.repeat_interleave(heads // own, dim=-3)


class ScaledDotProductAttention(Composite):
    """softmax(query @ key^T * scale + mask) @ value."""

    schema = (
        "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float"
        " dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"
    )
    namespace = "nn.functional"
    method = False
    out = False

    def compute(self, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
        check_inputs(query, key, value, attn_mask)
        fits = dropout_p == 0 and fits_flash(query, key, value, attn_mask, enable_gqa)
        if fits and FLASH in ENABLED:
            return find_op("_scaled_dot_product_flash_attention_for_cpu")(
                query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale
            )[0]
        if FLASH in ENABLED and drops_on_device(query, key, value, attn_mask, dropout_p, enable_gqa):
            seeds = query.new_empty((4,), dtype=_C.int64).random_(MOST_SEED)
            return find_op("_attention_dropped")(
                query, key, value, seeds, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
            )[0]
        if MATH not in ENABLED:
            why = "none is enabled" if FLASH not in ENABLED else "those enabled do not take these arguments"
            raise RuntimeError(f"scaled_dot_product_attention: No available kernel: {why}. Allow SDPBackend.MATH.")
        if (
            FLASH in ENABLED
            and dropout_p == 0
            and attn_mask is None
            and query.ndim != 4
            and reaches(query.shape[-2] * key.shape[-2], LARGE)
        ):
            result = through_four_dims(query, key, value, is_causal, scale, enable_gqa)
            if result is not None:
                return result
        kept = None
        if drops_in_order(query, key, value, dropout_p, enable_gqa):
            kept = find_op("_kept_in_order")(query.detach(), (*query.shape[:3], key.shape[2]), dropout_p)
        return find_op("_scaled_dot_product_attention_math")(
            query, key, value, attn_mask, dropout_p, is_causal, kept, scale=scale, enable_gqa=enable_gqa
        )[0]


def check_inputs(query: Any, key: Any, value: Any, mask: Any) -> None:
    """Raise unless types, devices and dimensions can be served by some form."""
    if not (query.dtype is key.dtype is value.dtype):
        raise RuntimeError(
            "scaled_dot_product_attention: expected query, key and value to have the same dtype, "
            f"but got {query.dtype.name}, {key.dtype.name} and {value.dtype.name}"
        )
    if not (query.device == key.device == value.device):
        raise RuntimeError(
            f"scaled_dot_product_attention: expected query, key and value on the same device, got {query.device},"
            f" {key.device} and {value.device}"
        )
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        raise RuntimeError(
            "scaled_dot_product_attention: expected query, key and value to be at least 2-dimensional, "
            f"but got {query.ndim}-D, {key.ndim}-D and {value.ndim}-D tensors"
        )
    if query.dtype not in FLOATS:
        kind = NotImplementedError if query.dtype.is_complex else RuntimeError
        raise kind(f"scaled_dot_product_attention: expected a floating dtype, got {query.dtype.name}")
    if mask is None:
        return
    if mask.dtype not in (_C.bool, query.dtype) and not (mask.dtype is _C.float32 and query.dtype in HALF):
        raise RuntimeError(
            "scaled_dot_product_attention: expected attn_mask of dtype bool or float or that of query, got"
            f" {mask.dtype.name} with query {query.dtype.name}"
        )
    if mask.ndim < 2:
        raise IndexError(
            "scaled_dot_product_attention: Dimension out of range: attn_mask needs at least 2 dimensions, got"
            f" {mask.ndim}"
        )


def fits_flash(query: Any, key: Any, value: Any, mask: Any, enable_gqa: bool) -> bool:
    """Whether the form that holds no scores can serve this call."""
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        return False
    if query.device.type not in ("cpu", "meta") and not fits_device(query, value):
        return False
    (batch, heads, length, width), (_, own, keys, _) = query.shape, key.shape
    if key.shape[:3] != value.shape[:3] or key.shape[0] != batch or key.shape[3] != width:
        return False
    if own != heads and not (enable_gqa and own and heads % own == 0):
        return False
    if 0 in (batch, heads, length, width, keys, value.shape[3]):
        return False
    if mask is None:
        return True
    full = (batch, heads, length, keys)
    return (
        mask.ndim <= 4
        and not mask.requires_grad
        and all(m in (1, f) for m, f in zip(reversed(mask.shape), reversed(full), strict=False))
    )


WIDEST = 256     # rows of a device's own attention, in elements
MOST_SEED = 1 << 31


def drops_on_device(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, enable_gqa: bool) -> bool:
    """Whether a plugged-in device draws the noise of dropout in its own attention."""
    return (
        0 < dropout_p < 1
        and query.device.type not in ("cpu", "meta")
        and query.ndim == 4
        and query.shape[2] > 1
        and fits_flash(query, key, value, mask, enable_gqa)
    )


def drops_in_order(query: Any, key: Any, value: Any, dropout_p: float, enable_gqa: bool) -> bool:
    """Whether PyTorch's memory-efficient form serves this call on CUDA devices: it draws the noise of dropout otherwise
    than `dropout` does."""
    given = (query, key, value)
    return (
        0 < dropout_p < 1
        and EFFICIENT in ENABLED
        and query.dtype is _C.float32
        and not enable_gqa
        and not levels.state.stack
        and all(t.ndim == 4 and 0 not in t.shape and t.stride(3) == 1 and t.shape[3] % 4 == 0 for t in given)
        and query.shape[:2] == key.shape[:2] == value.shape[:2]
        and own_function("random_ordered", query.device) is not None
    )


def fits_device(query: Any, value: Any) -> bool:
    """Whether a plugged-in device has a form of its own for this call."""
    return (
        query.dtype in HALF
        and all(t.shape[3] <= WIDEST and t.shape[3] % 8 == 0 for t in (query, value))
        and own_function("attention", query.device) is not None
    )


def through_four_dims(query: Any, key: Any, value: Any, is_causal: bool, scale: Any, enable_gqa: bool) -> Any:
    """The call on 4-D views of inputs with other numbers of dimensions; None where they do not fit."""
    outer = query.shape[:-2]
    if query.ndim < 2 or key.shape[:-2] != outer or value.shape[:-2] != outer:
        return None

    def four(t: Any) -> Any:
        return t.reshape(1, -1, *t.shape[-2:]) if t.ndim != 3 else t.unsqueeze(0)

    q, k, v = four(query), four(key), four(value)
    if not fits_flash(q, k, v, None, enable_gqa):
        return None
    result = find_op("_scaled_dot_product_flash_attention_for_cpu")(q, k, v, 0.0, is_causal, scale=scale)[0]
    return result.reshape(*outer, *result.shape[-2:])
