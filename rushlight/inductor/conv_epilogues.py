"""Pointwise ops behind a convolution as part of its kernels (codegen/library/convolution/finish.py).

Enters: the ops as one Lowered, with what they read, and the node of the convolution. Leaves: a `Finished`, the plan of
a convolution that computes them, and the values it reads besides; None where the convolution is planned in a form
without such kernels, or the ops read what neither lies like the result nor is one number per channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.digest import digest
from ..codegen.library.convolution.finish import SUM, Finish, can_finish
from ..codegen.schedule.forms.wishes import Wishes
from ..loops.expr import Value as Scalar, cast, const, var, walk
from ..loops.lowered import HERE, Given, Lowered, Memory, NotLowerable
from ..loops.record import Record
from ..op.step import Step
from ..planners.convolutions import convolve
from . import settings, tune
from .packing import split
from .read_graph import Node, Reader
from .values import Value

MOST_NODES = 400         # of an expression: it is written twice in every kernel
CODES = ("f32", "f64")


class Finished(Record):
    """The plan, and the values that its last operands are: those of channels, then those like the result."""

    plan: Any
    values: tuple[Value, ...]
    channels: int


def finished(reader: Reader, node: Node, points: Lowered, read: Sequence[Value], packed: bool) -> Finished | None:
    """The convolution with the ops behind it; `packed`: its weights are packed once for many calls."""
    result = node.results[0]
    found = finish_of(result, points, read)
    if found is None or not can_finish(found[0]):
        return None
    finish, values = found
    form = tune.known_form(node.definition, node.args) if settings.tune else None
    wishes = Wishes(form=form, finish=finish, packed=packed, large=packed and settings.freeze)
    try:
        plan = reader.asked_once(
            node.definition, wishes, lambda stands: tune.kept_plan(node.definition, stands, wishes), node.args
        )
    except NotLowerable:
        return None
    if plan is None or not any(s.kernel in convolve.finishers for s in plan.parts[0]):
        return None
    return Finished(plan, tuple(values), finish.channels)


def finish_of(result: Value, points: Lowered, read: Sequence[Value]) -> tuple[Finish, list[Value]] | None:
    """The ops as an expression of a sum, and the values it reads."""
    code = result.dtype.code
    if code not in CODES or points.outs != (code,) or not points.aligned:
        return None
    sources: list[Any] = []
    channels, elements = [], []
    values = iter(read)
    for r in points.reads:
        if not isinstance(r, Memory):
            if isinstance(r.value, complex):
                return None
            number = const(r.value, "f64" if isinstance(r.value, float) else "i64")
            sources.append(Given(cast(number, r.code)))
            continue
        v = next(values)
        if v.buffer is result.buffer:
            sources.append(Given(var(SUM, code)))
            continue
        place = place_of(r, result)
        if place is None or r.code != code:
            return None
        among, name = (channels, "c") if place == "channel" else (elements, "f")
        sources.append(Given(var(f"{name}{len(among)}", code)))
        among.append(v)
    (value,) = points.body(HERE, sources)
    value = cast(value, code)
    if len(walk((value,))) > MOST_NODES:
        return None
    return Finish(code, value, len(channels), len(elements), named(value)), [*channels, *elements]


def place_of(read: Memory, result: Value) -> str | None:
    """Whether a tensor has a number per channel, or an element for each of the result; None for others."""
    along = read.along()
    long = [d for d, n in enumerate(result.sizes) if n != 1]
    if all(along[d] == (1 if d == 1 else 0) for d in long):
        return "channel"
    return "element" if all(along[d] == result.strides[d] for d in long) else None


def named(value: Scalar) -> str:
    """A name for an expression: equal ones have it."""
    numbers: dict[Scalar, int] = {}
    lines = []
    for v in walk((value,)):
        numbers[v] = len(numbers)
        lines.append(repr((v.op, v.dtype, v.attr, [numbers[a] for a in v.args])))
    return digest("\n".join(lines).encode()).hex()


def fits(result: Value) -> bool:
    """Whether a convolution's result is dense, in the order of its dims, and large enough to compile for."""
    return len(result.sizes) >= 3 and result.is_contiguous and math.prod(result.sizes) >= SMALLEST


SMALLEST = 1 << 12       # elements of a result from which on a kernel is compiled for what comes behind it


def placed(step: Step, first: int, finish: Finished) -> Step:
    """A step of the plan with its last operands numbered from `first` on: elements begin where the result does."""
    own = convolve.finishers.get(step.kernel) if isinstance(step.kernel, int) else None
    if own is None:
        return step
    _, start = split(step.operands[own - 1])
    extra = [
        first + k if k < finish.channels or not start else (first + k, start) for k in range(len(finish.values))
    ]
    return step._replace(operands=[*step.operands[:own], *extra])
