"""Normalisation of rows made of separate runs of memory:
the kernels of batch_norm and group_norm while a row fits in cache.

Enters: a dense tensor and how its rows lie in it: row `i` starts at `i * row_stride` and has `runs` runs of `length`
neighbours, `run_stride` apart. A channel of [N, C, L] is N runs; a group of channels of one item is one run per
channel. Weight and bias have one number per run, at `(i % groups) * weight_row + k * weight_run`. Leaves: the result
with mean, reciprocal deviation and variance per row; the gradients. Memory is read once,
the other passes find it in cache.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from ...codegen.schedule.forms.launch import Launch, Schedule, number_bits
from ...loops.expr import Value, abs_, cast, const, div, eq, irem, load, select, sqrt, var
from ...loops.lowered import compute_code, number_value
from ...loops.nest import Assign, For, Local, Nest, Statement, Store, operands, reduction, rows
from ...op import Library, Spec
from ...op.pack import BY_CODE

ZERO = const(0, "i64")
LAYOUT = ("rows", "runs", "length", "row_stride", "run_stride", "groups", "weight_row", "weight_run")
IN_CACHE = 448 * 1024    # bytes of one row of one tensor that stay in a core's cache
SHORT_RUN = 16           # runs below this are not worth a loop of their own
SMALL = 8192             # elements of a whole tensor for which one kernel is best whatever its shape
FEW_ROWS = 16            # with fewer rows there is too little to share among threads


class Layout(NamedTuple):
    """Where rows lie; see the module."""

    rows: int
    runs: int
    length: int
    row_stride: int
    run_stride: int
    groups: int
    weight_row: int
    weight_run: int

    def fits(self, itemsize: int) -> bool:
        """Whether the kernels here are the fast ones."""
        row = self.runs * self.length
        if self.rows * row <= SMALL:
            return row > 0
        return self.length >= SHORT_RUN and self.rows >= FEW_ROWS and row * itemsize <= IN_CACHE


def channels_of(shape: Any, length: int) -> Layout:
    """Rows are the channels of [N, C, length]."""
    return Layout(shape[1], shape[0], length, length, shape[1] * length, shape[1], 1, 0)


def groups_of(shape: Any, length: int, groups: int) -> Layout:
    """Rows are the groups of channels of each item of [N, C, length]."""
    size = shape[1] // groups
    return Layout(shape[0] * groups, size, length, size * length, length, groups, size, 1)


class Row:
    """Writes the statements of one row."""

    def __init__(self, code: str) -> None:
        self.code, self.compute = code, compute_code(code)
        self.count = cast(var("runs") * var("length"), self.compute)
        self.head = [
            Local("base", var("i") * var("row_stride")),
            Local("place", irem(var("i"), var("groups")) * var("weight_row")),
        ]

    def local(self, name: str) -> Value:
        return var(name, self.compute)

    def element(self, operand: int, k: Value, j: Value) -> Value:
        return cast(load(operand, self.at(k, j), self.code), self.compute)

    def at(self, k: Value, j: Value) -> Value:
        return var("base") + k * var("run_stride") + j

    def parameter(self, operand: int, code: str, k: Value) -> Value:
        return cast(load(operand, var("place") + k * var("weight_run"), code), self.compute)

    def fold(self, *sums: tuple[str, Any]) -> list[Statement]:
        """Sum each `value(k, j)` over the row into the local called `name`."""
        names = [name for name, _ in sums]
        k, j = var(f"k.{names[0]}"), var(f"j.{names[0]}")
        inner = self.run_sums(j.attr, [f"part.{n}" for n in names], [value(k, j) for _, value in sums])
        added = [Assign(n, self.local(n) + self.local(f"part.{n}")) for n in names]
        return [*[Local(n, const(0, self.compute)) for n in names], For(k.attr, ZERO, var("runs"), (inner, *added))]

    def run_sums(self, j: str, names: list[str], values: list[Value]) -> Statement:
        zero = [const(0, self.compute)] * len(names)
        return reduction(
            j,
            ZERO,
            var("length"),
            names,
            zero,
            lambda acc: [a + v for a, v in zip(acc, values, strict=True)],
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
            blocked=True,
        )


def forward_nest(code: str, weight: str | None, bias: str | None, eps: Value) -> Nest:
    """Mean, then variance, then the result."""
    row = Row(code)
    given = [c for c in (weight, bias) if c is not None]
    out = 1 + len(given)
    guess, mean, k, j = row.local("guess"), row.local("mean"), var("k"), var("j")
    body = [
        *row.head,
        *row.fold(("total", lambda k, j: row.element(0, k, j))),
        Local("guess", div(row.local("total"), row.count)),
    ]
    # What remains around the first mean corrects it, and with it the variance: both are right to the last bits.
    body += row.fold(
        ("rest", lambda k, j: row.element(0, k, j) - guess),
        ("spread", lambda k, j: (row.element(0, k, j) - guess) * (row.element(0, k, j) - guess)),
    )
    # Not where there is none: what is infinite stays so, and is no difference of two infinities.
    slip, around, infinite = row.local("slip"), row.local("around"), const(math.inf, row.compute)
    body += [Local("slip", div(row.local("rest"), row.count)), Local("around", div(row.local("spread"), row.count))]
    body += [Local("mean", select(eq(abs_(guess), infinite), guess, guess + slip))]
    body += [Local("variance", select(eq(around, infinite), around, around - slip * slip))]
    body += [Local("rstd", div(const(1, row.compute), sqrt(row.local("variance") + cast(eps, row.compute))))]
    scale = row.local("rstd") if weight is None else row.local("rstd") * row.parameter(1, weight, k)
    result = (row.element(0, k, j) - mean) * row.local("scale")
    inside: list[Statement] = [Local("scale", scale)]
    if bias is not None:
        inside.append(Local("shift", row.parameter(out - 1, bias, k)))
        result = result + row.local("shift")
    inside.append(For("j", ZERO, var("length"), (Store(out, row.at(k, j), cast(result, code)),), vector=True))
    body += [For("k", ZERO, var("runs"), tuple(inside))]
    body += [Store(out + 1 + n, var("i"), row.local(name)) for n, name in enumerate(("mean", "rstd", "variance"))]
    outs = [code, *(row.compute,) * 3]
    return Nest("segment_norm", operands([code, *given], outs), (*LAYOUT, "eps.0"), rows(*body))


def backward_nest(code: str, weight: str | None) -> Nest:
    """Sums of grad and grad * (input - mean) per run, then the gradient of the input."""
    row = Row(code)
    out = 4 if weight is None else 5
    mean, rstd, k, j = row.local("mean"), row.local("rstd"), var("k"), var("j")
    grad, centred = row.element(0, k, j), row.element(1, k, j) - mean
    body = [*row.head, *[Local(name, load(2 + n, var("i"), row.compute)) for n, name in enumerate(("mean", "rstd"))]]
    body += [Local("sums", const(0, row.compute)), Local("dots", const(0, row.compute))]
    factor = const(1, row.compute) if weight is None else row.parameter(4, weight, k)
    cell = var("i") * var("runs") + k
    body += [For("k", ZERO, var("runs"), (
        row.run_sums("j", ["sum", "dot"], [grad, grad * centred]),
        Store(out + 1, cell, row.local("sum")), Store(out + 2, cell, row.local("dot")), Local("factor", factor),
        Assign("sums", row.local("sums") + row.local("factor") * row.local("sum")),
        Assign("dots", row.local("dots") + row.local("factor") * row.local("dot")),
    ))]  # fmt: skip
    body += [
        Local("shift", div(-rstd * row.local("sums"), row.count)),
        Local("slope", div(-rstd * rstd * rstd * row.local("dots"), row.count)),
    ]
    result = grad * row.local("scale") + centred * row.local("slope") + row.local("shift")
    body += [For("k", ZERO, var("runs"), (
        Local("scale", rstd * factor),
        For("j", ZERO, var("length"), (Store(out, row.at(k, j), cast(result, code)),), vector=True),
    ))]  # fmt: skip
    given = [code, code, row.compute, row.compute, *([] if weight is None else [weight])]
    return Nest("segment_norm_backward", operands(given, [code, row.compute, row.compute]), LAYOUT, rows(*body))


class _Segments(Library):
    """One kernel over rows."""

    function = method = out = differentiable = False


class SegmentNorm(_Segments):
    """(result, mean, 1 / deviation, variance) of the rows of `input`."""

    schema = (
        f"_segment_norm(Tensor input, Tensor? weight, Tensor? bias, {', '.join(f'int {n}' for n in LAYOUT)}, float eps)"
        " -> (Tensor, Tensor, Tensor, Tensor)"
    )

    def meta(self, input, weight, bias, rows, *rest):
        kept = BY_CODE[compute_code(input.dtype.code)]
        return (Spec(tuple(input.shape), input.dtype), *[Spec((rows,), kept)] * 3)

    def launches(self, args):
        codes = tuple([None if t is None else t.dtype.code for t in args[:3]])
        layout, eps, numbers = args[3:-1], args[-1], range(7 - codes.count(None))
        nest = functools.partial(forward_nest, *codes, number_value("eps", float(eps)))
        params = (*layout, *number_bits(float(eps)))
        return Schedule((Launch(codes, nest, tuple(numbers), params, layout[0], 1),))


class SegmentNormBackward(_Segments):
    """(gradient of the input, sums of grad and of grad * (input - mean) for every run of every row)."""

    schema = (
        "_segment_norm_backward(Tensor grad, Tensor input, Tensor mean, Tensor rstd, Tensor? weight,"
        f" {', '.join(f'int {n}' for n in LAYOUT)}) -> (Tensor, Tensor, Tensor)"
    )

    def meta(self, grad, input, mean, rstd, weight, rows, runs, *rest):
        return (Spec(tuple(grad.shape), grad.dtype), *[Spec((rows, runs), mean.dtype)] * 2)

    def launches(self, args):
        grad, weight, layout = args[0], args[4], args[5:]
        codes = (grad.dtype.code, None if weight is None else weight.dtype.code)
        numbers = tuple(range(7 if weight is None else 8))
        nest = functools.partial(backward_nest, *codes)
        return Schedule((Launch(codes, nest, numbers, tuple(layout), layout[0], 1),))
