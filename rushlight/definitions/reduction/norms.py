"""Norms of vectors, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from rushlight.base.promotion import rank, to_float
from rushlight.loops.expr import PART
from rushlight.op import Composite, find_op
from rushlight.op.pointwise import compute_code
from rushlight.op.reduction import Fold, Reduction, Types

from .restore import as_dtype, dims_of, unreduce


class PowerSum(Fold):
    """(sum |x|^p)^(1/p), with the usual limits for p of 0 and plus or minus infinity."""

    def __init__(self, p: float) -> None:
        self.p = p
        self.blocked = math.isfinite(p)
        self.has_identity = not (p == math.inf or p < 0)

    def init(self, s, code):
        code = PART.get(code, code)
        return (s.const(math.inf if self.p == -math.inf else 0, code),)

    def step(self, s, acc, x, index):
        if self.p == 2:
            square = s.real(x) * s.real(x) + s.imag(x) * s.imag(x) if x.dtype in PART else x * x
            return (acc[0] + square,)
        if self.p == 0:
            return (acc[0] + s.cast(s.to_bool(x), acc[0].dtype),)
        size = s.abs(x)
        if math.isinf(self.p):
            return self.merge(s, acc, (size,))
        if self.p == -2:   # the square could overflow where its inverse is still a number
            return (acc[0] + (1 / size) * (1 / size),)
        return (acc[0] + (size if self.p == 1 else s.pow(size, s.like(self.p, size))),)

    def merge(self, s, a, b):
        if self.p == math.inf:
            return (s.maximum(a[0], b[0]),)
        if self.p == -math.inf:
            return (s.minimum(a[0], b[0]),)
        return (a[0] + b[0],)

    def finish(self, s, acc, count):
        if self.p == 2:
            return s.sqrt(acc[0])
        if self.p in (0, 1) or math.isinf(self.p):
            return acc[0]
        return s.pow(acc[0], s.like(1 / self.p, acc[0]))


power_sum = cache(PowerSum)   # one object per p, so that kernels are found again


class VectorNorm(Reduction):
    """The `ord`-norm of the elements as one vector per result."""

    schema = (
        "linalg_vector_norm(Tensor x, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) ->"
        " Tensor"
    )
    namespace = "linalg"
    method = False

    def fold(self, x, ord, *args):
        return power_sum(float(ord))

    def check(self, x, ord, dim, keepdim, dtype):
        if rank(x.dtype) < 2:
            raise RuntimeError(f"linalg.vector_norm: expected a floating point or complex dtype, got {x.dtype.name}")
        if isinstance(ord, complex):
            raise RuntimeError("linalg.vector_norm: expected a real ord, got a complex one.")
        if dtype is not None and (rank(dtype) < 2 or dtype.is_complex != x.dtype.is_complex):
            raise RuntimeError(
                f"linalg.vector_norm: dtype should be of the same kind as the input {x.dtype.name}, got {dtype.name}"
            )

    def check_not_empty(self, sizes, dims, is_full):
        if 0 in (sizes[d] for d in dims if d < len(sizes)):
            raise RuntimeError(
                "linalg.vector_norm cannot compute the norm of an empty tensor for an order with no identity"
            )

    def types(self, x, dtype, *args):
        read = dtype or x.dtype
        return Types(read.code, compute_code(read.code), (read.to_real() if read.is_complex else read,))

    def vjp(self, g, x, result, ord, dim, keepdim):
        g, result = unreduce(g, x.ndim, dim, keepdim), unreduce(result, x.ndim, dim, keepdim)
        return {"x": as_dtype(norm_gradient(g, x, result, float(ord), dims_of(dim, x.ndim)), x.dtype)}


def norm_gradient(g: Any, x: Any, result: Any, p: float, dims: tuple[int, ...]) -> Any:
    """Gradient of a p-norm; where the norm is 0 the subgradient 0 is taken."""
    if p == 0:
        return x * 0
    if p == 1:
        return x.sgn() * g
    zero_norm = result.detach() == 0
    if p == 2:   # whose second derivative grows without bound towards 0, and is NaN there
        return g * (x / result).masked_fill(zero_norm, 0)
    safe = result.masked_fill(zero_norm, 1)   # a division by 0 would spoil the rule's own derivative
    if math.isinf(p):
        size = x.detach().abs()
        mask = (size == result.detach()) | size.isnan()
        return x.sgn() * (g / mask.sum(dims, True)) * mask
    if p < 2:
        scaled = x.sgn() * x.abs().pow(p - 1)
        if p < 1:
            scaled = scaled.masked_fill(x.detach() == 0, 0)
        return scaled * (g * safe.pow(1 - p)).masked_fill(zero_norm, 0)
    return x * x.abs().pow(p - 2) * (g / safe.pow(p - 1)).masked_fill(zero_norm, 0)


class Norm(Composite):
    """The p-norm of the elements; the Frobenius norm by default."""

    schema = "norm(Tensor input, any p='fro', int[]? dim=None, bool keepdim=False, dtype? dtype=None) -> Tensor"
    replays = True

    def compute(self, input, p, dim, keepdim, dtype):
        if p == "nuc":
            return find_op("linalg_matrix_norm")(input, "nuc", dim or tuple(range(input.ndim)), keepdim, dtype=dtype)
        if p is None or p == "fro":
            p = 2
        elif isinstance(p, str):
            raise RuntimeError(f"norm: expected p to be a number, 'fro' or 'nuc', got {p}")
        return find_op("linalg_vector_norm")(input, p, dim, keepdim, dtype=dtype)


class LogSumExp(Reduction):
    """log(sum(exp(x))) along `dim`, without overflow."""

    schema = "logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor"
    aliases = ("special.logsumexp",)
    slow = True

    def is_planned(self, args):
        return not args[0].dtype.is_complex

    def run(self, input, dim, keepdim):
        """Complex numbers: measured from the largest real part."""
        dims = dims_of(dim, input.ndim)
        top = find_op("real")(input).amax(dims, True)
        top = top.masked_fill(top.isinf(), 0)
        total = (input - top).exp().sum(dims, True).log() + top
        for d in () if keepdim else reversed(dims):
            total = total.squeeze(d)
        return total

    def types(self, input, dtype, *args):
        out = to_float(input.dtype)
        return Types(out.code, compute_code(out.code), (out,))

    def init(self, s, code):
        return (s.const(-math.inf, code), s.const(0, code))

    def step(self, s, acc, x, index):
        return self.merge(s, acc, (x, s.like(1, x)))

    def merge(self, s, a, b):
        """One exponential: the side with the larger maximum keeps its sum. Sums of infinite maxima mean nothing, but
        are finite: a side whose maximum is lower without bound counts for nothing."""
        apart = s.where(s.eq(a[0], b[0]), s.like(0, a[0]), a[0] - b[0])
        factor = s.exp(-s.abs(apart))
        total = s.where(apart < 0, a[1] * factor + b[1], a[1] + b[1] * factor)
        return (s.maximum(a[0], b[0]), total)

    def finish(self, s, acc, count):
        return s.where(s.isfinite(acc[0]), s.log(acc[1]) + acc[0], acc[0])

    def vjp(self, g, input, result, dim, keepdim):
        g, result = unreduce(g, input.ndim, dim, keepdim), unreduce(result, input.ndim, dim, keepdim)
        if result.dtype.is_complex:
            return {"input": g * (input - result).exp().conj()}
        return {"input": as_dtype(g * (input - result).exp(), input.dtype)}   # NaN at an infinite largest element
