"""Variance and standard deviation, alone and with the mean.

Runs of elements are read twice, first for their mean, then for the distances from it; the second pass also sums
the distances themselves, which corrects what the mean lost to rounding. Runs are merged in float64.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

from rushlight.base.promotion import rank
from rushlight.op import find_op
from rushlight.op.pack import BY_CODE
from rushlight.op.pointwise import compute_code
from rushlight.op.reduction import Fold, Reduction, TwoPass, Types
from rushlight.op.results import result_type

from ...base.tracebacks import users_level
from .restore import count_of, unreduce


class Total(Fold):
    """Plain sum."""

    def init(self, s, code):
        return (s.const(0, code),)

    def merge(self, s, a, b):
        return (a[0] + b[0],)


class SmallTotal(Fold):
    """Sum in float64 of elements made so small that none overflows it."""

    share = 2.0**-64

    def init(self, s, code):
        return (s.const(0, "f64"),)

    def step(self, s, acc, x, index):
        return (acc[0] + s.cast(x, "f64") * self.share,)

    def merge(self, s, a, b):
        return (a[0] + b[0],)


class CarefulMoments(TwoPass):
    """Count, mean and squared distance of a run in float64, from which squares of smaller types never fall out."""

    blocked = True
    first = SmallTotal()

    def middle(self, s, acc, length):
        return (acc[0] * (1 / self.first.share / s.cast(length, "f64")),)

    def second_init(self, s, code):
        return (s.const(0, "f64"),)

    def second_step(self, s, acc, x, known):
        distance = s.cast(x, "f64") - known[0]
        return (acc[0] + distance * distance,)

    def join(self, s, known, second, length):
        # The mean of infinite elements is as little of a number as their distances from it.
        return (s.cast(length, "f64"), s.where(s.isnan(second[0]), second[0], known[0]), second[0])


class Moments(TwoPass):
    """Count, mean, squared distance. `outputs` is of "var", "std", "mean"."""

    blocked = True
    first = Total()
    careful = CarefulMoments()
    least = 2.0**-100      # mean square below which single precision loses digits of squares

    def __init__(self, correction: float, outputs: tuple[str, ...]) -> None:
        self.correction, self.outputs = correction, outputs

    def init(self, s, code):
        zero = s.const(0, "f64")
        return (zero, zero, zero)

    def middle(self, s, acc, length):
        return (acc[0] / s.cast(length, acc[0].dtype),)

    def second_init(self, s, code):
        return (s.const(0, code), s.const(0, code))

    def second_step(self, s, acc, x, known):
        distance = x - known[0]
        return (acc[0] + distance * distance, acc[1] + distance)

    def join(self, s, known, second, length):
        n = s.cast(length, "f64")
        squares, distances = s.cast(second[0], "f64"), s.cast(second[1], "f64")
        some = n > 0
        mean = s.where(some, s.cast(known[0], "f64") + distances / n, s.like(0, n))
        # A sum of squares of infinite or NaN distances stays what it is; one that lost more to rounding, or vanished
        # while this has not, is no square of a deviation.
        lost = distances * distances / n
        return (n, mean, s.where(some & ~(lost > squares), squares - lost, s.like(0, n)))

    def doubts(self, s, known, second, length):
        squares = second[0]
        surely = squares < s.like(math.inf, squares)
        if squares.dtype != "f64":
            surely = surely & (squares >= s.cast(length, squares.dtype) * self.least)
        return ~surely

    def merge(self, s, a, b):
        n = a[0] + b[0]
        safe = s.where(n > 0, n, s.like(1, n))
        distance = b[1] - a[1]
        share = b[0] / safe
        return (n, a[1] + distance * share, a[2] + b[2] + distance * (a[0] * share) * distance)

    def finish(self, s, acc, count):
        n, mean, spread = acc
        free = s.cast(count, mean.dtype) - s.like(self.correction, mean)
        variance = spread / s.where(free > 0, free, s.like(0, free))
        empty = s.like(float("nan"), mean)
        values = {"var": variance, "std": s.sqrt(variance), "mean": s.where(n > 0, mean, empty)}
        return tuple(values[name] for name in self.outputs)


moments = cache(Moments)   # one object per kind, so that kernels are found again


SCHEMAS = (
    "{name}(Tensor input, bool unbiased=True) -> {returns}",
    "{name}(Tensor input, int[]? dim, bool unbiased=True, bool keepdim=False) -> {returns}",
    "{name}(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> {returns}",
)


def schemas(name: str, returns: str = "Tensor") -> tuple[str, ...]:
    """PyTorch's three ways to call a variance."""
    return tuple(text.format(name=name, returns=returns) for text in SCHEMAS)


class Variance(Reduction):
    """What the four ops share: arguments, complex inputs and the gradient of a variance."""

    outputs: tuple[str, ...] = ("var",)

    def options(self, *args: Any) -> tuple[Any, bool, float]:
        """(dim, keepdim, correction), whichever schema bound the arguments."""
        given = {p.name: v for p, v in zip(self.spec.params, args, strict=True)}
        correction = given.get("correction")
        if correction is None:
            correction = 1 if given.get("unbiased", True) else 0
        return given.get("dim"), given.get("keepdim", False), float(correction)

    def fold(self, *args):
        return moments(self.options(*args)[2], self.outputs)

    def check(self, input, *args):
        if rank(input.dtype) < 2:
            raise RuntimeError(f"{self.name} only support floating point and complex dtypes")
        dim, _, correction = self.options(input, *args)
        if count_of(input.shape, dim) - correction <= 0:
            warnings.warn(
                f"{self.name}: no degrees of freedom are left: expected a correction below the number of elements "
                "that each result is made of.", UserWarning, stacklevel=users_level(),
            )

    def types(self, input, dtype, *args):
        code = compute_code(input.dtype.code)
        return Types(input.dtype.code, code, (input.dtype,) * len(self.outputs))

    def is_planned(self, args):
        if args[0].dtype.is_complex:
            self.check(*args)
        return not args[0].dtype.is_complex

    def run(self, *args):
        """Complex numbers: the variances of the parts add up."""
        dim, keepdim, correction = self.options(*args)
        var = find_op("var")
        halves = [find_op(part)(args[0]) for part in ("real", "imag")]
        spread = var(halves[0], dim, correction=correction, keepdim=keepdim) + var(
            halves[1], dim, correction=correction, keepdim=keepdim
        )
        result = []
        for name in self.outputs:
            result.append(spread if name == "var" else spread.sqrt() if name == "std" else args[0].mean(dim, keepdim))
        if len(result) == 1:
            return result[0]
        return result_type(self.spec.name, self.spec.return_names)(result) if self.spec.return_names else tuple(result)

    def correction_of(self, unbiased: Any, correction: Any) -> float:
        if correction is not None:
            return correction
        return 0 if unbiased is False else 1


def variance_gradient(g: Any, input: Any, dim: Any, keepdim: Any, correction: float) -> Any:
    """Gradient of the variance: twice the distance from the mean over the degrees of freedom."""
    g = unreduce(g, input.ndim, dim, keepdim)
    free = count_of(input.shape, dim) - correction   # complex inputs: the same formula, distances being complex
    scale = 2.0 / free if free > 0 else float("inf")
    return (g * scale) * (input - input.mean(dim, True))


def deviation_gradient(g: Any, result: Any) -> Any:
    """Gradient of a variance, from that of its square root; 0 where the root is 0."""
    return (g / (result * 2)).masked_fill(result.detach() == 0, 0)


class Var(Variance):
    """Variance of the elements."""

    schema = schemas("var")

    def vjp(self, g, input, dim, keepdim, unbiased, correction):
        return {"input": variance_gradient(g, input, dim, keepdim, self.correction_of(unbiased, correction))}


class Std(Variance):
    """Standard deviation of the elements."""

    schema = schemas("std")
    outputs = ("std",)

    def vjp(self, g, input, result, dim, keepdim, unbiased, correction):
        g = deviation_gradient(g, result)
        return {"input": variance_gradient(g, input, dim, keepdim, self.correction_of(unbiased, correction))}


class VarMean(Variance):
    """Variance and mean in one pass."""

    schema = schemas("var_mean", "(Tensor, Tensor)")
    method = False
    outputs = ("var", "mean")

    def vjp(self, g, input, result, dim, keepdim, unbiased, correction):
        spread, mean = g
        total = None
        if spread is not None:
            if self.outputs[0] == "std":
                spread = deviation_gradient(spread, result[0])
            total = variance_gradient(spread, input, dim, keepdim, self.correction_of(unbiased, correction))
        if mean is not None:
            part = (unreduce(mean, input.ndim, dim, keepdim) / max(1, count_of(input.shape, dim))).expand(input.shape)
            total = part if total is None else total + part
        return {"input": total}


class WideVarMean(VarMean):
    """The same; those of half types in single precision."""

    schema = schemas("_wide_var_mean", "(Tensor, Tensor)")
    function = method = out = False
    differentiable = False

    def types(self, input, dtype, *args):
        result = super().types(input, dtype, *args)
        wide = BY_CODE[result.compute]
        return Types(result.read, result.compute, (wide,) * len(self.outputs))


class StdMean(VarMean):
    """Standard deviation and mean in one pass."""

    schema = schemas("std_mean", "(Tensor, Tensor)")
    outputs = ("std", "mean")
