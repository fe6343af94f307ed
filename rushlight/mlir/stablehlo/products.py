"""Products of matrices as dot_general."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _C
from ...op.pack import BY_CODE
from ..printing import Value
from .building import Hlo, types_list, value
from .elements import cast
from .table import Call, rule


def dot_general(b: Hlo, x: Value, y: Value, along: tuple[Sequence[int], Sequence[int]],
                batch: tuple[Sequence[int], Sequence[int]] = ((), ()), dtype: Any = None) -> Value:
    """The sum of products along dims; batch dims come first in the result, then what is left of x, then of y."""
    left = [n for d, n in enumerate(x.shape) if d not in along[0] and d not in batch[0]]
    right = [n for d, n in enumerate(y.shape) if d not in along[1] and d not in batch[1]]
    shape = [x.shape[d] for d in batch[0]] + left + right
    parts = {"lhs_batching_dimensions": batch[0], "rhs_batching_dimensions": batch[1],
             "lhs_contracting_dimensions": along[0], "rhs_contracting_dimensions": along[1]}
    numbers = ", ".join(f"{name} = {types_list(dims)}" for name, dims in parts.items() if dims)
    return b.op("stablehlo.dot_general", [x, y], value(dtype or x.dtype, shape),
                {"dot_dimension_numbers": f"#stablehlo.dot<{numbers}>"})


def product(b: Hlo, x: Value, y: Value) -> Value:
    """matmul: vectors, matrices and batches of them, which are repeated to one shape."""
    if x.dtype.code in ("f16", "bf16"):      # sums of products are kept in full precision
        wide = BY_CODE["f32"]
        return cast(b, product(b, cast(b, x, wide), cast(b, y, wide)), x.dtype)
    if x.ndim == 1 or y.ndim == 1:
        if y.ndim <= 2:
            return dot_general(b, x, y, ([x.ndim - 1], [0]))
        if x.ndim <= 2 and y.ndim == 1:
            return dot_general(b, x, y, ([x.ndim - 1], [0]))
    if y.ndim <= 2:
        return dot_general(b, x, y, ([x.ndim - 1], [0]))
    is_vector = x.ndim == 1
    if is_vector:
        x = b.reshape(x, (1, *x.shape))
    batch = joined(x.shape[:-2], y.shape[:-2])
    x = b.broadcast(x, (*batch, *x.shape[-2:]))
    y = b.broadcast(y, (*batch, *y.shape[-2:]))
    n = len(batch)
    found = dot_general(b, x, y, ([n + 1], [n]), (range(n), range(n)))
    return b.reshape(found, (*batch, found.shape[-1])) if is_vector else found


def joined(a: Sequence[Any], c: Sequence[Any]) -> tuple:
    """The shape that two shapes are repeated to."""
    rank = max(len(a), len(c))
    a, c = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(c)) + tuple(c)
    return tuple([n if type(m) is int and m == 1 else m for m, n in zip(a, c, strict=True)])


@rule("matmul", "mm", "bmm", "mv", "dot")
def matmul(call: Call, input: Value, **rest: Any) -> Value:
    other = next(v for v in rest.values() if isinstance(v, Value))
    dtype = call.out().dtype
    return product(call.b, cast(call.b, input, dtype), cast(call.b, other, dtype))


@rule("_int_mm")
def int_mm(call: Call, input: Value, mat2: Value) -> Value:
    wide = BY_CODE["i32"]
    return product(call.b, call.b.convert(input, wide), call.b.convert(mat2, wide))


@rule("linear")
def linear(call: Call, input: Value, weight: Value, bias: Value | None = None) -> Value:
    b, dtype = call.b, call.out().dtype
    wide = _C.float32 if dtype.code in ("f16", "bf16") else dtype
    x, w = cast(b, input, wide), cast(b, weight, wide)
    found = dot_general(b, x, w, ([x.ndim - 1], [w.ndim - 1]))
    if bias is not None:
        found = b.binary("add", found, b.broadcast(cast(b, bias, wide), found.shape))
    return cast(b, found, dtype)


@rule("addmm")
def addmm(call: Call, input: Value, mat1: Value, mat2: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    b, dtype = call.b, call.out().dtype
    wide = _C.float32 if dtype.code in ("f16", "bf16") else dtype
    found = scaled(b, product(b, cast(b, mat1, wide), cast(b, mat2, wide)), alpha)
    if beta == 0:
        return cast(b, found, dtype)
    return cast(b, b.binary("add", found, scaled(b, b.broadcast(cast(b, input, wide), found.shape), beta)), dtype)


def scaled(b: Hlo, x: Value, by: Any) -> Value:
    """x times a number."""
    return x if by == 1 else b.binary("multiply", x, b.constant(by, x.dtype, x.shape))


