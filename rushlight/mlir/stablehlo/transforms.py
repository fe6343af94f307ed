"""Fourier transforms, triangular systems and Cholesky factors: what XLA has libraries for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...definitions.spectral.transforms import factor
from ...op.pack import BY_CODE
from .. import types
from ..printing import Value
from .building import I64, Hlo, value
from .elements import cast
from .table import Call, rule


def along(b: Hlo, x: Value, kind: str, length: int, dtype: Any, size: int) -> Value:
    """One transform of the last dim."""
    return b.op("stablehlo.fft", [x], value(dtype, (*x.shape[:-1], size)), {
        "fft_type": f"#stablehlo<fft_type {kind}>", "fft_length": types.integers([length])})


def last(b: Hlo, x: Value, dim: int) -> tuple[Value, list[int]]:
    """x with a dim behind all others, and how it comes back."""
    order = [d for d in range(x.ndim) if d != dim] + [dim]
    return b.transpose(x, order), [order.index(d) for d in range(x.ndim)]


def scaled(b: Hlo, x: Value, by: float) -> Value:
    return x if by == 1 else b.binary("multiply", x, b.constant(by, x.dtype, x.shape))


def complex_along(b: Hlo, x: Value, dim: int, forward: bool, norm: str) -> Value:
    turned, back = last(b, x, dim)
    n = x.shape[dim]
    found = along(b, turned, "FFT" if forward else "IFFT", n, x.dtype, n)
    by = factor(norm, n) * (1 if forward else n)
    return b.transpose(scaled(b, found, by), back)


@rule("_fft_c2c")
def c2c(call: Call, input: Value, dim: Sequence[int], norm: str, forward: bool) -> Value:
    for d in reversed(dim):
        input = complex_along(call.b, input, d, forward, norm)
    return input


@rule("_fft_r2c")
def r2c(call: Call, input: Value, dim: Sequence[int], norm: str, onesided: bool) -> Value:
    b, dtype = call.b, call.out().dtype
    if not onesided:
        x = cast(b, input, dtype)
        for d in reversed(dim):
            x = complex_along(b, x, d, True, norm)
        return x
    turned, back = last(b, input, dim[-1])
    n = input.shape[dim[-1]]
    x = scaled(b, along(b, turned, "RFFT", n, dtype, n // 2 + 1), factor(norm, n))
    x = b.transpose(x, back)
    for d in reversed(dim[:-1]):
        x = complex_along(b, x, d, True, norm)
    return x


@rule("_fft_c2r")
def c2r(call: Call, input: Value, dim: Sequence[int], norm: str, size: int) -> Value:
    b, dtype = call.b, call.out().dtype
    for d in dim[:-1]:
        input = complex_along(b, input, d, False, norm)
    turned, back = last(b, input, dim[-1])
    wanted = size // 2 + 1
    have = turned.shape[-1]
    if have > wanted:
        turned = b.slice(turned, [0] * turned.ndim, (*turned.shape[:-1], wanted))
    elif have < wanted:
        more = [*[0] * (turned.ndim - 1), wanted - have]
        turned = b.pad(turned, b.constant(0, turned.dtype), [0] * turned.ndim, more)
    found = along(b, turned, "IRFFT", size, dtype, size)
    return b.transpose(scaled(b, found, factor(norm, size) * size), back)


# --- triangles --------------------------------------------------------------------------------------------------------


def cholesky_of(b: Hlo, x: Value, upper: bool) -> Value:
    """The factor, with zeros on the other side."""
    found = b.op("stablehlo.cholesky", [x], Value(x.type, x.dtype, x.shape), {"lower": types.truth(not upper)})
    return b.select(triangle(b, x.shape, upper), found, b.constant(0, x.dtype, x.shape))


def triangle(b: Hlo, shape: Sequence[Any], upper: bool) -> Value:
    """Where a triangle of matrices is, its diagonal with it."""
    rows, columns = b.iota(I64, shape, len(shape) - 2), b.iota(I64, shape, len(shape) - 1)
    return b.compare("LE" if upper else "GE", rows, columns)


def solved(b: Hlo, a: Value, x: Value, *, left: bool, upper: bool, unit: bool = False, turned: str = "NO_TRANSPOSE"
           ) -> Value:
    """The solution of a triangular system; matrices of batches that are the same."""
    return b.op("stablehlo.triangular_solve", [a, x], Value(x.type, x.dtype, x.shape), {
        "left_side": types.truth(left), "lower": types.truth(not upper), "unit_diagonal": types.truth(unit),
        "transpose_a": f"#stablehlo<transpose {turned}>"})


@rule("cholesky", "linalg_cholesky")
def cholesky(call: Call, upper: bool = False, **given: Value) -> Value:
    (matrix,) = given.values()
    return cholesky_of(call.b, matrix, upper)


@rule("linalg_cholesky_ex")
def cholesky_ex(call: Call, A: Value, upper: bool = False, check_errors: bool = False) -> tuple:  # noqa: N803
    b = call.b
    return cholesky_of(b, A, upper), b.constant(0, BY_CODE["i32"], A.shape[:-2])


@rule("_solve_triangular_same")
def solve_triangular(call: Call, A: Value, B: Value, upper: bool, left: bool, unitriangular: bool) -> Value:  # noqa: N803
    return solved(call.b, A, B, left=left, upper=upper, unit=unitriangular)


@rule("_cholesky_solve_same")
def cholesky_solve(call: Call, B: Value, L: Value, upper: bool) -> Value:  # noqa: N803
    b, turned = call.b, "ADJOINT" if L.dtype.is_complex else "TRANSPOSE"
    first, second = (turned, "NO_TRANSPOSE") if upper else ("NO_TRANSPOSE", turned)
    return solved(b, L, solved(b, L, B, left=True, upper=upper, turned=first), left=True, upper=upper, turned=second)


@rule("cholesky_inverse")
def cholesky_inverse(call: Call, input: Value, upper: bool = False) -> Value:
    b = call.b
    one = cast(b, b.compare("EQ", *[b.iota(I64, input.shape, input.ndim - k) for k in (2, 1)]), input.dtype)
    kept = b.select(triangle(b, input.shape, upper), input, b.constant(0, input.dtype, input.shape))
    return cholesky_solve(call, one, kept, upper)

