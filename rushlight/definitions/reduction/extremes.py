"""Largest and smallest elements, and where they are."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any

from rushlight import _C
from rushlight.base.shape import is_below
from rushlight.op import Composite, Meta
from rushlight.op.pointwise import compute_code
from rushlight.op.reduction import Fold, Reduction, Types

from .restore import as_dtype, dims_of, unreduce

NOWHERE = {"i32": (1 << 31) - 1, "i64": (1 << 63) - 1}   # no position is this large


def lowest(code: str) -> float | int:
    """The value no element of this type is below."""
    if code[0] == "f":
        return -math.inf
    return 0 if code[0] in "ub" else -(1 << (int(code[1:]) - 1))


def highest(code: str) -> float | int:
    """The value no element of this type is above."""
    if code[0] == "f":
        return math.inf
    if code == "b1":
        return 1
    return (1 << int(code[1:])) - 1 if code[0] == "u" else (1 << (int(code[1:]) - 1)) - 1


class Largest(Fold):
    """Keeps the larger; NaN beats everything."""

    has_identity = False

    def init(self, s, code):
        return (s.const(lowest(code), code),)

    def merge(self, s, a, b):
        return (s.maximum(a[0], b[0]),)


class Smallest(Fold):
    """Keeps the smaller; NaN beats everything."""

    has_identity = False

    def init(self, s, code):
        return (s.const(highest(code), code),)

    def merge(self, s, a, b):
        return (s.minimum(a[0], b[0]),)


class LargestAt(Fold):
    """The larger and its position; of equals the first, and the first NaN beats everything.

    The narrow form is for the usual case of one reduced loop that fits in 32 bits: positions then grow from step to
    step, so an equal element never replaces the one before it, and as many lanes are busy as the elements fill.
    """

    has_identity = False
    uses_index = True
    index = "i64"

    @cached_property
    def narrow(self) -> Fold:
        """The same fold for positions that grow and fit in 32 bits."""
        other = copy.copy(self)
        other.index = "i32"
        return other

    def fold(self, input: Any, *args: Any) -> Fold:
        one_loop = input._is_contiguous() or (args and args[0] is not None)
        return self.narrow if one_loop and is_below(input.numel(), NOWHERE["i32"]) else self

    def init(self, s, code):
        return (s.const(lowest(code), code), s.const(NOWHERE[self.index], self.index))

    def loses(self, s: Any, a: Any, b: Any) -> Any:
        """Whether `b` is no better than `a`."""
        return b <= a

    def step(self, s, acc, x, index):
        if self.index == "i64":
            return self.merge(s, acc, (x, index))
        takes = ~self.loses(s, acc[0], x)
        if x.dtype[0] == "f":
            takes = takes & s.eq(acc[0], acc[0])
        return (s.where(takes, x, acc[0]), s.where(takes, s.cast(index, self.index), acc[1]))

    def merge(self, s, a, b):
        takes = ~self.loses(s, a[0], b[0])
        ties = s.eq(a[0], b[0])
        if a[0].dtype[0] == "f":
            takes = takes & ~s.isnan(a[0])
            ties = ties | (s.isnan(a[0]) & s.isnan(b[0]))
        takes = takes | (ties & (b[1] < a[1]))
        return (s.where(takes, b[0], a[0]), s.where(takes, b[1], a[1]))

    def finish(self, s, acc, count):
        # Nothing beat the initial value: every element equals it, so the first is as good as any.
        return acc[0], s.where(s.eq(acc[1], s.const(NOWHERE[self.index], self.index)), s.const(0, self.index), acc[1])


class SmallestAt(LargestAt):
    """The smaller and its position."""

    def init(self, s, code):
        return (s.const(highest(code), code), s.const(NOWHERE[self.index], self.index))

    def loses(self, s, a, b):
        return b >= a


def check_dims(name: str, input: Any, dim: Any) -> None:
    """Refuses what PyTorch refuses: named dims of a tensor with more than 64."""
    if input.ndim > 64 and dim not in (None, (), []):
        raise RuntimeError(
            f"{name}: expected a tensor with up to 64 dims where dim is given, got {input.ndim}. Flatten some of them."
        )


class AMax(Largest, Reduction):
    """The largest element over the dims in `dim`; gradients are shared equally among equals."""

    schema = "amax(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor"
    refuse = ("complex",)

    def check(self, input, dim, keepdim):
        Reduction.check(self, input)
        check_dims(self.name, input, dim)

    def vjp(self, g, input, result, dim, keepdim):
        g, result = unreduce(g, input.ndim, dim, keepdim), unreduce(result, input.ndim, dim, keepdim)
        mask = input.detach() == result.detach()
        return {"input": g * mask / mask.sum(dims_of(dim, input.ndim), True)}


class AMin(Smallest, Reduction):
    """The smallest element over the dims in `dim`; gradients are shared equally among equals."""

    schema = "amin(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor"
    refuse = ("complex",)
    check = AMax.check
    vjp = AMax.vjp


def shared_gradient(g: Any, input: Any, result: Any) -> Any:
    """The gradient of one extreme, in equal parts to all elements equal to it."""
    value = input.detach()
    mask = value == result.detach()
    if input.dtype.is_floating_point:
        mask = mask | (value.isnan() & result.detach().isnan())
    return mask * (g / mask.sum())


class Max(Largest, Reduction):
    """The largest element."""

    schema = "max(Tensor input) -> Tensor"
    refuse = ("complex",)

    def vjp(self, g, input, result):
        return {"input": shared_gradient(g, input, result)}


class Min(Smallest, Reduction):
    """The smallest element."""

    schema = "min(Tensor input) -> Tensor"
    refuse = ("complex",)
    vjp = Max.vjp


def selected_gradient(g: Any, shape: Any, indices: Any, dim: int, keepdim: Any) -> Any:
    """A gradient of values picked along `dim`, put back where they came from."""
    if not len(shape):
        return g
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return g.new_zeros(shape).scatter(dim, indices, g)


class MaxOther(Composite):
    """Elementwise maximum of two tensors."""

    schema = "max(Tensor input, Tensor other) -> Tensor"

    def compute(self, input, other):
        return input.maximum(other)


class MaxDim(LargestAt, Reduction):
    """The largest element along `dim`, and where it is."""

    schema = "max(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
    refuse = ("complex",)

    def types(self, input, dtype, *args):
        return Types(input.dtype.code, compute_code(input.dtype.code), (input.dtype, _C.int64))

    saved_results = (1,)

    def vjp(self, g, input: Meta, result, dim, keepdim):
        return {"input": None if g[0] is None else selected_gradient(g[0], input.shape, result[1], dim, keepdim)}


class MinOther(Composite):
    """Elementwise minimum of two tensors."""

    schema = "min(Tensor input, Tensor other) -> Tensor"

    def compute(self, input, other):
        return input.minimum(other)


class MinDim(SmallestAt, Reduction):
    """The smallest element along `dim`, and where it is."""

    schema = "min(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
    refuse = ("complex",)
    types = MaxDim.types
    vjp = MaxDim.vjp


class ArgMax(LargestAt, Reduction):
    """Where the largest element is, in the flattened input or along `dim`."""

    schema = "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor"
    differentiable = False
    refuse = ("complex", "bool")

    def types(self, input, dtype, *args):
        return Types(input.dtype.code, compute_code(input.dtype.code), (_C.int64,))

    def check(self, input, dim, keepdim):
        super().check(input)
        if dim is None and input.numel() == 0:
            raise IndexError(
                f"{self.name}: the reduction of no elements (input.numel() == 0) has no value. Name a dim that has"
                " some."
            )

    def finish(self, s, acc, count):
        return LargestAt.finish(self, s, acc, count)[1]


class ArgMin(SmallestAt, Reduction):
    """Where the smallest element is, in the flattened input or along `dim`."""

    schema = "argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor"
    differentiable = False
    refuse = ("complex", "bool")
    types = ArgMax.types
    finish = ArgMax.finish

    def check(self, input, dim, keepdim):
        Reduction.check(self, input)
        if dim is None and input.numel() == 0:
            raise IndexError(
                f"{self.name}: the reduction of no elements (input.numel() == 0) has no value. Name a dim that has"
                " some."
            )


class AMinMax(Reduction):
    """Smallest and largest element in one pass."""

    schema = "aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"
    exact_out = True
    has_identity = False
    refuse = ("complex",)

    def check(self, input, dim, keepdim):
        super().check(input)
        check_dims(self.name, input, dim)
        if dim is None and input.numel() == 0:
            raise RuntimeError("aminmax: an empty dimension has neither a least nor a greatest element.")

    def types(self, input, dtype, *args):
        return Types(input.dtype.code, compute_code(input.dtype.code), (input.dtype, input.dtype))

    def init(self, s, code):
        return (s.const(highest(code), code), s.const(lowest(code), code))

    def step(self, s, acc, x, index):
        return (s.minimum(acc[0], x), s.maximum(acc[1], x))

    def merge(self, s, a, b):
        return (s.minimum(a[0], b[0]), s.maximum(a[1], b[1]))

    def finish(self, s, acc, count):
        return tuple(acc)

    def vjp(self, g, input, result, dim, keepdim):
        total = None
        for grad, value in zip(g, result, strict=True):
            if grad is None:
                continue
            grad, value = unreduce(grad, input.ndim, dim, keepdim), unreduce(value, input.ndim, dim, keepdim)
            mask = input.detach() == value.detach()
            part = grad * mask / mask.sum(dims_of(dim, input.ndim), True)
            total = part if total is None else total + part
        return {"input": None if total is None else as_dtype(total, input.dtype)}
