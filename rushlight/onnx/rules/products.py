"""Matrix products, and what is made of them."""

from __future__ import annotations

import math
import operator
from typing import Any

from ... import _C
from ...tensors.interop import tensor
from ..building import Builder, Size
from ..model import Value
from ..numbers import NUMBERS
from .table import number, permuted, rule


@rule("mm", "bmm", "matmul", "mv", "dot")
def product(g: Builder, input: Value, mat2: Value | None = None, other: Value | None = None, vec: Value | None = None,
            **last: Value) -> Value:
    right = next(v for v in (mat2, other, vec, *last.values()) if v is not None)
    return matmul(g, input, right)


def matmul(g: Builder, a: Value, b: Value) -> Value:
    """a @ b; half types and small integers are multiplied as they are, truths as integers."""
    return g.node("MatMul", a, b)


def scaled(g: Builder, x: Value, factor: Any) -> Value:
    return x if factor == 1 else g.node("Mul", x, number(g, factor, x))


@rule("addmm")
def addmm(g: Builder, input: Value, mat1: Value, mat2: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    are_known = not isinstance(alpha, Size) and not isinstance(beta, Size)
    # Of products over nothing, the runtime leaves `input` as it is.
    if are_known and input.dtype.is_floating_point and mat1.shape[-1] != 0:
        return g.node("Gemm", mat1, mat2, input, alpha=float(alpha), beta=float(beta))
    return g.node("Add", scaled(g, input, beta), scaled(g, matmul(g, mat1, mat2), alpha))


@rule("baddbmm", "addbmm", "addmv")
def add_product(g: Builder, input: Value, batch1: Value | None = None, batch2: Value | None = None, beta: Any = 1,
                alpha: Any = 1, mat: Value | None = None, vec: Value | None = None) -> Value:
    left, right = (batch1, batch2) if batch1 is not None else (mat, vec)
    result = matmul(g, left, right)
    if batch1 is not None and len(g.result.shape) == 2:        # addbmm: the sum over the batch
        result = g.node("ReduceSum", result, g.ints([0]), keepdims=0)
    return g.node("Add", scaled(g, input, beta), scaled(g, result, alpha))


@rule("linear")
def linear(g: Builder, input: Value, weight: Value, bias: Value | None = None) -> Value:
    if input.ndim == 2 and weight.ndim == 2:
        return g.node("Gemm", input, weight, bias, transB=1)
    order = list(range(weight.ndim))[::-1]
    result = g.node("MatMul", input, permuted(g, weight, order) if weight.ndim > 1 else weight)
    return result if bias is None else g.node("Add", result, bias)


@rule("scaled_dot_product_attention")
def attention(g: Builder, query: Value, key: Value, value: Value, attn_mask: Value | None = None,
              dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
              enable_gqa: bool = False) -> Value:
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = _repeated(g, key, query), _repeated(g, value, query)
    scores = _scores(g, query, key, attn_mask, dropout_p, is_causal, scale)
    return _weighted(g, scores, value, query, attn_mask)


def _scores(g: Builder, query: Value, key: Value, attn_mask: Value | None, dropout_p: float, is_causal: bool,
            scale: float | Size | None) -> Value:
    if dropout_p:
        raise NotImplementedError(f"dropout of attention weights (dropout_p={dropout_p}) is for training; call eval()")
    width = query.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(width) if isinstance(width, int) else NUMBERS[operator.truediv](
            g, 1, NUMBERS[math.sqrt](g, g.size(query, -1), ""), "")
    order = [*range(key.ndim - 2), key.ndim - 1, key.ndim - 2]
    if isinstance(scale, Size) or scale < 0:
        scores = matmul(g, scaled(g, query, scale), permuted(g, key, order))
    else:                              # both sides by the root: in half types the products stay small
        root = math.sqrt(scale)
        scores = matmul(g, scaled(g, query, root), scaled(g, permuted(g, key, order), root))
    if is_causal:
        scores = g.node("Add", scores, _causal_bias(g, query, key, scores.dtype))
    if attn_mask is not None:
        bias = attn_mask
        if attn_mask.dtype is _C.bool:
            bias = g.node("Where", attn_mask, number(g, 0.0, query), number(g, -math.inf, query), dtype=query.dtype)
        scores = g.node("Add", scores, bias)
    return scores


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(g: Builder, query: Value, key: Value, value: Value, dropout_p: float = 0.0, is_causal: bool = False,
                    attn_mask: Value | None = None, scale: float | None = None) -> tuple[Value, Value]:
    """What graphs have in the place of attention: its result, and the logarithms of the sums for the backward."""
    scores = _scores(g, query, key, attn_mask, dropout_p, is_causal, scale)
    return _weighted(g, scores, value, query, attn_mask), g.node("ReduceLogSumExp", scores, g.ints([-1]), keepdims=0)


def _weighted(g: Builder, scores: Value, value: Value, query: Value, attn_mask: Value | None) -> Value:
    weights = g.node("Softmax", scores, axis=-1)
    if attn_mask is not None and attn_mask.dtype is _C.bool:      # a row that may look at nothing gives zeros
        weights = g.node("Where", g.node("IsNaN", weights, dtype=_C.bool), number(g, 0.0, query), weights,
                         dtype=query.dtype)
    return matmul(g, weights, value)


def _repeated(g: Builder, x: Value, query: Value) -> Value:
    """Heads that several queries share, once for each of them."""
    ours, theirs = x.shape[-3], query.shape[-3]
    if not isinstance(ours, int) or not isinstance(theirs, int):
        raise NotImplementedError("enable_gqa with numbers of heads that vary")
    index = [h for h in range(ours) for _ in range(theirs // ours)]
    found = g.node("Gather", x, g.ints(index), axis=x.ndim - 3)
    return Value(found.name, x.dtype, (*x.shape[:-3], theirs, *x.shape[-2:]))


def _causal_bias(g: Builder, query: Value, key: Value, dtype: Any) -> Value:
    """0 where a query may look at a key, -inf for keys behind it."""
    sizes = g.sizes([g.size(query, -2), g.size(key, -2)])
    future = g.node("ConstantOfShape", sizes, dtype=dtype, shape=(None, None), value=tensor([-math.inf], dtype=dtype))
    return g.node("Trilu", future, g.constant(1, _C.int64), upper=1)
