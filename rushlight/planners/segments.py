"""Planning the normalisation of rows made of separate runs of memory: one kernel each way, a row per item.

Enters: types, and how rows lie (definitions/norm/segments.py). Leaves: schedules over the tensors given and the
results. A row is read three times, from memory once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..codegen.schedule.forms.launch import Launch, Schedule, number_bits
from ..loops.expr import Value, abs_, cast, const, div, eq, irem, load, select, sqrt, var
from ..loops.lowered import compute_code, number_value
from ..loops.nest import Assign, For, Local, Nest, Statement, Store, operands, reduction, rows

ZERO = const(0, "i64")
LAYOUT = ("rows", "runs", "length", "row_stride", "run_stride", "groups", "weight_row", "weight_run")


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
    body: list[Statement] = [
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
    body: list[Statement] = list(row.head)
    body += [Local(name, load(2 + n, var("i"), row.compute)) for n, name in enumerate(("mean", "rstd"))]
    body += [Local("sums", const(0, row.compute)), Local("dots", const(0, row.compute))]
    factor = const(1, row.compute) if weight is None else row.parameter(4, weight, k)
    cell = var("i") * var("runs") + k
    body += [For("k", ZERO, var("runs"), (
        row.run_sums("j", ["sum", "dot"], [grad, grad * centred]),
        Store(out + 1, cell, row.local("sum")), Store(out + 2, cell, row.local("dot")), Local("factor", factor),
        Assign("sums", row.local("sums") + row.local("factor") * row.local("sum")),
        Assign("dots", row.local("dots") + row.local("factor") * row.local("dot")),
    ))]
    body += [
        Local("shift", div(-rstd * row.local("sums"), row.count)),
        Local("slope", div(-rstd * rstd * rstd * row.local("dots"), row.count)),
    ]
    result = grad * row.local("scale") + centred * row.local("slope") + row.local("shift")
    body += [For("k", ZERO, var("runs"), (
        Local("scale", rstd * factor),
        For("j", ZERO, var("length"), (Store(out, row.at(k, j), cast(result, code)),), vector=True),
    ))]
    given = [code, code, row.compute, row.compute, *([] if weight is None else [weight])]
    return Nest("segment_norm_backward", operands(given, [code, row.compute, row.compute]), LAYOUT, rows(*body))


def forward_schedule(codes: tuple[str, str | None, str | None], layout: Sequence[int], eps: float) -> Schedule:
    """Result, mean, reciprocal deviation and variance of rows; `codes` are the types of input, weight and bias."""
    nest = functools.partial(forward_nest, *codes, number_value("eps", eps))
    numbers, params = tuple(range(7 - codes.count(None))), (*layout, *number_bits(eps))
    return Schedule((Launch(codes, nest, numbers, params, layout[0], 1),))


def backward_schedule(codes: tuple[str, str | None], layout: Sequence[int]) -> Schedule:
    """The gradient of the input, and sums for every run; `codes` are the types of the gradient and the weight."""
    numbers = tuple(range(7 if codes[1] is None else 8))
    return Schedule((Launch(codes, functools.partial(backward_nest, *codes), numbers, tuple(layout), layout[0], 1),))
