"""Running sums, products and extremes along a dim."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight.base.dtype import finfo
from rushlight.base.promotion import can_cast, rank, to_float
from rushlight.definitions.reduction.extremes import highest, lowest
from rushlight.definitions.reduction.restore import as_dtype
from rushlight.loops.lowered import Rare
from rushlight.op import Meta, find_op, wrap_dim
from rushlight.op.pointwise import compute_code
from rushlight.op.reduction import Types
from rushlight.op.scan import Scan
from rushlight.rules import levels
from rushlight.rules.levels import readable

WIDE = {"f16": "f32", "bf16": "f32", "f32": "f64", "c32": "c64", "c64": "c128"}


def accumulated_types(input: Any, dtype: Any, wide: bool = True) -> Types:
    """Integers add up in int64; floats one precision up, as errors would pile up along the way."""
    out = dtype or (_C.int64 if rank(input.dtype) < 2 else input.dtype)
    return Types(out.code, WIDE.get(out.code, out.code) if wide else compute_code(out.code), (out,))


class _Running(Scan):
    """In-place forms write the result over the input."""

    inplace = True

    def run(self, input, dim, dtype):
        if dtype is not None and not can_cast(dtype, input.dtype):
            raise RuntimeError(f"{self.name}: result type {dtype.name} can't be cast to {input.dtype.name}")
        return input.copy_(find_op(self.spec.name)(input, dim, dtype=dtype or input.dtype))


class CumSum(_Running):
    """Sums of the elements up to each one along `dim`."""

    schema = "cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor"
    way = "add"

    def types(self, input, dim, dtype):
        return accumulated_types(input, dtype)

    def init(self, s, code):
        return (s.const(0, code),)

    def step(self, s, acc, x, index):
        return (acc[0] + x,)

    def single(self, s, x):
        return (x,)

    def merge(self, s, a, b):
        return (a[0] + b[0],)

    def vjp(self, g, input: Meta, dim):
        return {"input": as_dtype(reversed_sum(g, dim), input.dtype)}


def reversed_sum(g: Any, dim: int) -> Any:
    """Sums of the elements from each one to the end."""
    if g.numel() <= 1 or g.shape[dim] == 1:
        return g
    return g.flip(dim).cumsum(dim).flip(dim)


class CumProd(_Running):
    """Products of the elements up to each one along `dim`."""

    schema = "cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor"
    way = "mul"

    def types(self, input, dim, dtype):
        return accumulated_types(input, dtype)

    def init(self, s, code):
        return (s.const(1, code),)

    def step(self, s, acc, x, index):
        return (acc[0] * x,)

    divides_on_host = False      # products of parts overflow where those of the whole do not

    def merge(self, s, a, b):
        return (a[0] * b[0],)

    def vjp(self, g, input, result, dim):
        if input.ndim == 0 or input.numel() == 0:
            return {"input": as_dtype(g, input.dtype)}
        dim = wrap_dim("cumprod", dim, input.ndim)
        factor = input.conj() if input.dtype.is_complex else input
        if readable(input) and not (input.detach() == 0).any().item():
            value = result.conj() if result.dtype.is_complex else result
            return {"input": as_dtype(reversed_sum(g * value, dim) / factor, input.dtype)}
        return {"input": as_dtype(running_product_gradient(g, factor, dim), input.dtype)}


def running_product_gradient(g: Any, x: Any, dim: int) -> Any:
    """Gradient of cumprod where some elements are 0: each element's own products, without it."""
    cat, n, parts = find_op("cat"), x.shape[dim], []
    for k in range(n):
        before = x.narrow(dim, 0, k).prod(dim, True)
        products = before.expand(before.shape)
        if k + 1 < n:
            after = x.narrow(dim, k + 1, n - k - 1).cumprod(dim)
            products = cat([before, before * after], dim)
        parts.append((g.narrow(dim, k, n - k) * products).sum(dim, True))
    return cat(parts, dim)


class CumMax(Scan):
    """The largest element so far along `dim`, and where it is; of equals the last."""

    schema = "cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)"
    way = "max"

    def types(self, input, dim):
        if input.dtype.is_complex:
            raise NotImplementedError(f'"{self.name}" not implemented for {input.dtype.name} tensors')
        return Types(input.dtype.code, compute_code(input.dtype.code), (input.dtype, _C.int64))

    def init(self, s, code):
        return self.start(s, s.const(lowest(code), code))

    def start(self, s: Any, worst: Any) -> tuple:
        return (worst, worst, s.const(0, "i64")) if worst.dtype[0] == "f" else (worst, s.const(0, "i64"))

    def better(self, s: Any, new: Any, old: Any) -> Any:
        return s.maximum(old, new)

    def beats(self, s: Any, new: Any, old: Any) -> Any:
        return new >= old

    def step(self, s, acc, x, index):
        """Floats have their extreme so far in a state of its own: elements wait for one instruction, not for what is
        chosen by it. It may be a zero of the other sign than the element that counts."""
        if x.dtype[0] != "f":
            takes = self.beats(s, x, acc[0])
            return (s.where(takes, x, acc[0]), s.where(takes, index, acc[1]))
        extreme = self.better(s, x, acc[0])
        takes = s.eq(x, extreme) | s.isnan(x)
        return (extreme, s.where(takes, x, acc[1]), s.where(takes, index, acc[2]))

    def rare(self, s, code):
        """Few elements of long rows are extremes; of the best of some, and of NaN, is known whether any is."""
        if code not in ("f32", "f64", "i32", "i64"):
            return None

        def moves(acc: tuple, best: Any) -> Any:
            takes = self.beats(s, best, acc[0])
            return takes | s.isnan(best) if code[0] == "f" else takes

        return Rare(self.init(s, code)[0], lambda a, b: self.better(s, b, a), moves)

    divides_on_host = False

    def merge(self, s, a, b):
        """The second half's element is the later of equals; NaN, once there, stays."""
        takes = self.beats(s, b[0], a[0])
        if a[0].dtype[0] != "f":
            return (s.where(takes, b[0], a[0]), s.where(takes, b[1], a[1]))
        takes = takes | s.isnan(b[0])
        return (self.better(s, b[0], a[0]), s.where(takes, b[1], a[1]), s.where(takes, b[2], a[2]))

    def emit(self, s, acc):
        return acc[-2:]

    saved_results = (1,)

    def vjp(self, g, input: Meta, result, dim):
        if g[0] is None or not len(input.shape):
            return {"input": g[0]}
        return {"input": g[0].new_zeros(input.shape).scatter_add(dim, result[1], g[0])}


class CumMin(CumMax):
    """The smallest element so far along `dim`, and where it is; of equals the last."""

    schema = "cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)"
    way = "min"

    def init(self, s, code):
        return self.start(s, s.const(highest(code), code))

    def better(self, s, new, old):
        return s.minimum(old, new)

    def beats(self, s, new, old):
        return new <= old


class LogCumSumExp(Scan):
    """Logarithms of running sums of exponentials along `dim`."""

    schema = "logcumsumexp(Tensor input, int dim) -> Tensor"
    way = "logaddexp"

    def types(self, input, dim):
        if rank(input.dtype) < 2:
            raise NotImplementedError(f'"logcumsumexp" not implemented for {input.dtype.name} tensors')
        out = to_float(input.dtype)
        return Types(out.code, compute_code(out.code), (out,))

    def init(self, s, code):
        """The largest so far, and the sum of all divided by its exponential, which no step takes a logarithm of; of
        complex numbers the logarithm itself."""
        largest = s.const(-math.inf, code)
        return (largest,) if s.is_complex(largest) else (largest, s.const(0, "f64"))

    def step(self, s, acc, x, index):
        if s.is_complex(x):
            return (self.complex_step(s, acc[0], x),)
        return self.merge(s, acc, self.single(s, x))

    def single(self, s, x):
        return (x,) if s.is_complex(x) else (x, s.const(1, "f64"))

    def merge(self, s, a, b):
        if s.is_complex(a[0]):
            return (self.complex_step(s, a[0], b[0]),)
        high, low = s.maximum(a[0], b[0]), s.minimum(a[0], b[0])
        share = s.cast(s.exp(s.where(s.eq(low, high), 0.0, low - high)), "f64")    # inf - inf must not appear
        return (high, s.where(b[0] > a[0], s.fma(a[1], share, b[1]), s.fma(b[1], share, a[1])))

    def emit(self, s, acc):
        return acc if s.is_complex(acc[0]) else (acc[0] + s.log(s.cast(acc[1], acc[0].dtype)),)

    def vjp(self, g, input, result, dim):
        if not input.ndim:
            return {"input": g}
        if input.dtype.is_complex:
            return {"input": (g * result.conj().neg().exp()).flip(dim).cumsum(dim).flip(dim) * input.conj().exp()}
        return {"input": summed_in_logs(g, input, result, dim)}

    def complex_step(self, s: Any, a: Any, b: Any) -> Any:
        """The number with the larger real part is taken out of the sum of exponentials."""
        first = s.real(a) > s.real(b)
        high, low = s.where(first, a, b), s.where(first, b, a)
        nothing = s.eq(s.real(low), -math.inf)
        return s.where(nothing, high, high + s.log1p(s.exp(low - high)))


def summed_in_logs(g: Any, x: Any, result: Any, dim: int) -> Any:
    """exp(x) times the reversed sum of g / exp(result).

    Positive and negative parts are kept as logarithms, in which it is not linear in g; where derivatives by g may be
    asked for, sums of neighbours, next neighbours and so on take exp(result - next result) along, which is at most 1.
    What is not there has the lowest number as its logarithm: of infinities derivatives would make NaN.
    """
    if levels.state.stack or (_C.is_grad_enabled() and g.requires_grad):
        return summed_in_steps(g, x, result, dim)
    nothing = finfo(x.dtype).min

    def part(sign: float) -> Any:
        wanted = (g * sign) > 0
        log = (g * sign).masked_fill(~wanted, 1).log()
        share = (log - result).masked_fill(~wanted, nothing)   # also where the result is -inf: no inf - inf
        return (share.flip(dim).logcumsumexp(dim).flip(dim) + x).exp()

    return part(1.0) - part(-1.0)


def summed_in_steps(g: Any, x: Any, result: Any, dim: int) -> Any:
    """The same, linear in g: after step k every sum holds 2**k terms, and what is left between it and the next."""
    empty = result == -math.inf
    total, after = g, result.narrow(dim, 1, result.shape[dim] - 1) if result.shape[dim] > 1 else None
    left = None if after is None else (result.narrow(dim, 0, after.shape[dim]) - after)
    if left is not None:
        left = left.masked_fill(empty.narrow(dim, 0, after.shape[dim]), -math.inf).exp()
    far = 1
    while far < result.shape[dim]:
        near = result.shape[dim] - far
        moved = total.narrow(dim, 0, near) + left * total.narrow(dim, far, near)
        total = find_op("cat")([moved, total.narrow(dim, near, far)], dim)
        if near > far:
            left = left.narrow(dim, 0, near - far) * left.narrow(dim, far, near - far)
        far *= 2
    return (x - result).masked_fill(empty, -math.inf).exp() * total
