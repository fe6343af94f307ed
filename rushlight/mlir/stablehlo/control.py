"""Ops over functions: cond as case, while_loop and scan as while; and loops of our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...op.pack import BY_CODE
from .. import types
from ..printing import Value
from .building import B1, I64, Hlo, value

Body = Callable[[Sequence[Value]], Sequence[Value]]


def case(b: Hlo, condition: Value, chosen: Callable[[], Sequence[Value]], other: Callable[[], Sequence[Value]]
         ) -> list[Value]:
    """The results of one of two functions."""
    branches = [b.region((), lambda f=f: f(), "stablehlo.return") for f in (chosen, other)]
    whole = BY_CODE["i32"]
    index = b.select(b.reshape(b.convert(condition, B1), ()), b.constant(0, whole), b.constant(1, whole))
    results = [Value(v.type, v.dtype, v.shape) for v in branches[0].operations[-1].operands]
    return b.ops("stablehlo.case", [index], results, {}, branches)


def loop(b: Hlo, start: Sequence[Value], goes_on: Callable[[Sequence[Value]], Value], step: Body) -> list[Value]:
    """Values that are carried as long as a condition holds."""
    def fresh() -> list[Value]:
        return [Value(v.type, v.dtype, v.shape) for v in start]

    condition = b.region(fresh(), lambda *args: [b.reshape(b.convert(goes_on(args), B1), ())], "stablehlo.return")
    body = b.region(fresh(), lambda *args: step(args), "stablehlo.return")
    return b.ops("stablehlo.while", list(start), fresh(), {}, [condition, body])


def counted(b: Hlo, length: Value, start: Sequence[Value], step: Callable[[Value, Sequence[Value]], Sequence[Value]]
            ) -> list[Value]:
    """The same, a number of times; `step` is given how often it ran."""
    def once(carried: Sequence[Value]) -> list[Value]:
        made = step(carried[0], carried[1:])
        return [b.binary("add", carried[0], b.constant(1, I64)), *made]

    found = loop(b, [b.constant(0, I64), *start], lambda c: b.compare("LT", c[0], length), once)
    return found[1:]


def part(b: Hlo, x: Value, at: Value, dim: int) -> Value:
    """x at one position of a dim, which it has no longer."""
    zero = b.constant(0, I64)
    sizes = [1 if d == dim else n for d, n in enumerate(x.shape)]
    found = b.op("stablehlo.dynamic_slice", [x, *[at if d == dim else zero for d in range(x.ndim)]],
                 value(x.dtype, sizes), {"slice_sizes": types.integers(sizes)})
    return b.reshape(found, [n for d, n in enumerate(x.shape) if d != dim])


def with_part(b: Hlo, x: Value, new: Value, at: Value, dim: int) -> Value:
    """x with one position of a dim exchanged."""
    zero = b.constant(0, I64)
    wide = b.reshape(new, [1 if d == dim else n for d, n in enumerate(x.shape)])
    return b.op("stablehlo.dynamic_update_slice", [x, wide, *[at if d == dim else zero for d in range(x.ndim)]],
                Value(x.type, x.dtype, x.shape))


def scanned(b: Hlo, function: Body, carried: Sequence[Value], xs: Sequence[Value], further: Sequence[Value],
            results: Sequence[Any]) -> list[Value]:
    """A function carried along the first dim; what it returns beyond what is carried is stacked."""
    n = len(carried)
    outs = [b.constant(0, fake.dtype, tuple(fake.shape)) for fake in results[n:]]

    def step(at: Value, state: Sequence[Value]) -> list[Value]:
        made = function([*state[:n], *[part(b, x, at, 0) for x in xs], *further])
        return [*made[:n], *[with_part(b, o, y, at, 0) for o, y in zip(state[n:], made[n:], strict=True)]]

    return counted(b, b.extent(xs[0].shape[0]), [*carried, *outs], step)
