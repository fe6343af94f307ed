"""Sums, means, products and counts."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.promotion import rank
from rushlight.op import Composite, Meta, find_op
from rushlight.op.pointwise import compute_code
from rushlight.op.reduction import Reduction, Types
from rushlight.rules.levels import is_readable

from .restore import as_dtype, count_of, unreduce


def summed_types(input: Any, dtype: Any) -> Types:
    """Integers and bool add up in int64; half types in float32."""
    out = dtype or (_C.int64 if rank(input.dtype) < 2 else input.dtype)
    return Types(out.code, compute_code(out.code), (out,))


class Sum(Reduction):
    """Sum of the elements, over all dims or those in `dim`."""

    schema = (
        "sum(Tensor input, *, dtype? dtype=None) -> Tensor",
        "sum(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    )
    blocked = True

    def types(self, input, dtype, *args):
        return summed_types(input, dtype)

    def init(self, s, code):
        return (s.const(0, code),)

    def merge(self, s, a, b):
        return (a[0] + b[0],)

    def vjp(self, g, input: Meta, dim, keepdim):
        if g.ndim == 0 and g.dtype is input.dtype:      # the end of most losses: sooner said
            return {"input": g.expand(input.shape)}
        return {"input": as_dtype(unreduce(g, input.ndim, dim, keepdim), input.dtype).expand(input.shape)}


class NanSum(Sum):
    """Sum of the elements that are not NaN."""

    schema = (
        "nansum(Tensor input, *, dtype? dtype=None) -> Tensor",
        "nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    )
    refuse = ("complex",)

    def step(self, s, acc, x, index):
        return (acc[0] + s.where(s.isnan(x), s.like(0, x), x),)

    def vjp(self, g, input, dim, keepdim):
        g = as_dtype(unreduce(g, input.ndim, dim, keepdim), input.dtype)
        return {"input": g.expand(input.shape) * input.isnan().logical_not()}


class Mean(Reduction):
    """Arithmetic mean of the elements, over all dims or those in `dim`."""

    schema = (
        "mean(Tensor input, *, dtype? dtype=None) -> Tensor",
        "mean(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    )
    blocked = True

    def types(self, input, dtype, *args):
        out = dtype or input.dtype
        if rank(out) < 2:
            what = "dtype" if dtype else "input dtype"
            raise RuntimeError(
                f"mean: the {what} must be floating point or complex, got {out.name}"
            )
        return Types(out.code, compute_code(out.code), (out,))

    init = Sum.init
    merge = Sum.merge

    def finish(self, s, acc, count):
        x = acc[0]
        return x / s.cast(count, {"c64": "f32", "c128": "f64"}.get(x.dtype, x.dtype))

    def vjp(self, g, input: Meta, dim, keepdim):
        if g.ndim == 0 and g.dtype is input.dtype:
            return {"input": (g / max(1, input.numel())).expand(input.shape)}
        g = as_dtype(unreduce(g, input.ndim, dim, keepdim), input.dtype)
        return {"input": (g / max(1, count_of(input.shape, dim))).expand(input.shape)}


class NanMean(Composite):
    """Mean of the elements that are not NaN."""

    schema = "nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor"
    replays = True

    def compute(self, input, dim, keepdim, dtype):
        if rank(input.dtype) < 2:
            raise RuntimeError(f"nanmean: expected a floating point or complex input, got {input.dtype.name}")
        counted = input.detach().isnan().logical_not().sum(dim, keepdim)
        return input.nansum(dim, keepdim, dtype=dtype) / counted


class Prod(Reduction):
    """Product of the elements, over all dims or along `dim`."""

    schema = (
        "prod(Tensor input, *, dtype? dtype=None) -> Tensor",
        "prod(Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    )

    def types(self, input, dtype, *args):
        return summed_types(input, dtype)

    def init(self, s, code):
        return (s.const(1, code),)

    def merge(self, s, a, b):
        return (a[0] * b[0],)

    def vjp(self, g, input, result, dim, keepdim):
        if input.ndim == 0:
            return {"input": as_dtype(g, input.dtype)}
        if dim is None:
            flat = input.reshape(-1)
            grad = product_gradient(g, flat, result, 0)
            return {"input": as_dtype(grad.reshape(input.shape), input.dtype)}
        grad = product_gradient(
            unreduce(g, input.ndim, dim, keepdim), input, unreduce(result, input.ndim, dim, keepdim), dim
        )
        return {"input": as_dtype(grad, input.dtype)}


def product_gradient(g: Any, x: Any, result: Any, dim: int) -> Any:
    """g times the product of all other elements along `dim`; by division where no element is 0."""
    if not x.is_meta and is_readable(x) and not (x.detach() == 0).any().item():
        return (g * (result / x).conj()) if x.dtype.is_complex else g * (result / x)
    return g * others_product(x, dim).conj() if x.dtype.is_complex else g * others_product(x, dim)


def others_product(x: Any, dim: int) -> Any:
    """For each element the product of those before it times the product of those after it."""
    n = x.shape[dim]
    if n == 0:
        return x
    one = x.detach().narrow(dim, 0, 1) * 0 + 1
    one = one.nan_to_num(1.0, 1.0, 1.0) if x.dtype.is_floating_point else one
    cat = find_op("cat")
    before = cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([one, x.flip(dim).narrow(dim, 0, n - 1)], dim).cumprod(dim).flip(dim)
    return before * after


class CountNonzero(Reduction):
    """How many elements differ from zero."""

    schema = (
        "count_nonzero(Tensor input, int? dim=None) -> Tensor",
        "count_nonzero(Tensor input, int[] dim) -> Tensor",
    )
    differentiable = False

    def types(self, input, dtype, *args):
        return Types(input.dtype.code, compute_code(input.dtype.code), (_C.int64,))

    def init(self, s, code):
        return (s.const(0, "i64"),)

    def step(self, s, acc, x, index):
        return (acc[0] + s.cast(s.to_bool(x), "i64"),)

    def merge(self, s, a, b):
        return (a[0] + b[0],)


class Trace(Composite):
    """Sum of the diagonal of a matrix."""

    schema = "trace(Tensor input) -> Tensor"
    replays = True

    def compute(self, input):
        if input.ndim != 2:
            raise RuntimeError(f"trace: expected a matrix, but got a {input.ndim}-D tensor")
        return input.diagonal().sum()
