"""Planning attention over pages: a query and a head per item, the pages of its sequence one behind the other.

Enters: types, sizes and strides (definitions/attention/paged.py says of what). Leaves: a schedule over queries, keys,
values, tables, sequences and positions, and the result. What is kept of a page is a few numbers: maximum and sum of the
powers so far, and the sums of values, in memory of the kernel's own. A page that does not exist is reported, not read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from ...codegen.schedule.forms.launch import Launch, Schedule, Temp
from ...loops import expr
from ...loops.expr import Value, and_, cast, const, eq, ge, gt, idiv, irem, load, lt, max_, min_, select, var
from ...loops.lowered import compute_code
from ...loops.nest import (
    Assign,
    Check,
    For,
    If,
    Local,
    Nest,
    Operand,
    Reduce,
    Statement,
    Store,
    operands,
    reduction,
    rows,
)
from ...op.pointwise import scalars
from .flash import bits_of

Join = Callable[[Value, Value], Value]
ZERO, ONE = const(0, "i64"), const(1, "i64")
WIDEST, LONGEST_PAGE = 512, 256      # elements of a head, and keys of a page, that a kernel has memory for
TOGETHER = 4                         # keys whose scores, and whose values, are summed side by side
WORK = 1 << 17                       # multiply-adds worth a chunk
PARAMS = (
    "heads", "group", "block", "blocks", "sequences", "pages", "query.t", "query.h", "key.b", "key.s", "key.h",
    "value.b", "value.s", "value.h", "window", "scale", "cap",
)
QUERY, KEYS, VALUES, TABLES, ROWS, POSITIONS, OUT, WRONG, SCORES, SUMS = range(10)


class Pages:
    """Writes the nest for one type of elements."""

    def __init__(self, code: str, width: int, capped: bool) -> None:
        self.capped = capped
        self.code, self.compute, self.width = code, compute_code(code), const(width, "i64")

    def number(self, x: float) -> Value:
        return const(x, self.compute)

    def local(self, name: str) -> Value:
        return var(name, self.compute)

    def element(self, operand: int, at: Value) -> Value:
        return cast(load(operand, at, self.code), self.compute)

    def fold(
        self, name: str, stop: Value, init: float, value: Value, join: Join, body: Sequence[Statement] = ()
    ) -> Reduce:
        """`value` of every `name`.j below `stop`, joined."""
        return reduction(f"{name}.j", ZERO, stop, [name], [self.number(init)], lambda a: [join(a[0], value)],
                         lambda a, b: [join(a[0], b[0])], body)

    def nest(self) -> Nest:
        heads, block, last = var("heads"), var("block"), var("last")
        known = and_(and_(ge(var("row"), ZERO), lt(var("row"), var("sequences"))), lt(last, var("pages") * block))
        first = select(gt(var("window"), ZERO), max_(ZERO, last - var("window") + ONE), ZERO)
        d = var("d")
        body = (
            Local("t", idiv(var("i"), heads)),
            Local("h", irem(var("i"), heads)),
            Local("own", idiv(var("h"), var("group"))),
            Local("last", cast(load(POSITIONS, var("t"), "i64"), "i64")),
            Local("row", cast(load(ROWS, var("t"), "i64"), "i64")),
            Local("ask", var("t") * var("query.t") + var("h") * var("query.h")),
            Local("top", self.number(-math.inf)),
            Local("total", self.number(0)),
            For("z", ZERO, self.width, (Store(SUMS, var("z"), self.number(0)),), vector=True),
            If(ge(last, ZERO), (
                Check(known, WRONG, ONE),
                Local("first", first),
                For("p", idiv(var("first"), block), idiv(last, block) + ONE, self.page()),
            )),
            Local("share", select(gt(self.local("total"), self.number(0)), self.local("total"), self.number(1))),
            For("d", ZERO, self.width, (
                Store(OUT, var("i") * self.width + d,
                      cast(load(SUMS, d, self.compute) / self.local("share"), self.code)),
            ), vector=True),
        )
        given = [*[self.code] * 3, *["i64"] * 3]
        own = (Operand(self.compute, LONGEST_PAGE), Operand(self.compute, WIDEST))
        return Nest("paged_attention", (*operands(given, [self.code], ["i64"]), *own), PARAMS, rows(*body))

    def page(self) -> tuple[Statement, ...]:
        """The query meets the keys of a page."""
        start = var("p") * var("block")
        power = scalars.exp(load(SCORES, var("sum.j"), self.compute) - self.local("base"))
        low = self.number(-math.inf)
        return (
            Local("page", cast(load(TABLES, var("row") * var("pages") + var("p"), "i64"), "i64")),
            Check(and_(ge(var("page"), ZERO), lt(var("page"), var("blocks"))), WRONG, const(2, "i64")),
            Local("from", max_(ZERO, var("first") - start)),
            Local("count", min_(var("block"), var("last") + ONE - start) - var("from")),
            Local("some", idiv(var("count"), const(TOGETHER, "i64"))),
            Local("key", var("page") * var("key.b") + var("own") * var("key.h") + var("from") * var("key.s")),
            Local("value", var("page") * var("value.b") + var("own") * var("value.h") + var("from") * var("value.s")),
            For("g", ZERO, var("some"), self.dots("g", TOGETHER)),
            For("k", var("some") * const(TOGETHER, "i64"), var("count"), self.dots("k", 1)),
            self.fold("best", var("count"), -math.inf, load(SCORES, var("best.j"), self.compute), max_),
            Local("now", max_(self.local("top"), self.local("best"))),
            Local("base", select(eq(self.local("now"), low), self.number(0), self.local("now"))),
            Local("shrink", scalars.exp(self.local("top") - self.local("base"))),
            self.fold("sum", var("count"), 0, load(SCORES, var("sum.j"), self.compute), expr.add,
                      [Store(SCORES, var("sum.j"), power)]),
            For("c", ZERO, self.width, (
                self.fold("many", var("some"), 0, self.weighed(var("many.j"), TOGETHER), expr.add),
                self.fold("rest", var("count") - var("some") * const(TOGETHER, "i64"), 0,
                          self.weighed(var("some") * const(TOGETHER, "i64") + var("rest.j"), 1), expr.add),
                Store(SUMS, var("c"), load(SUMS, var("c"), self.compute) * self.local("shrink")
                      + (self.local("many") + self.local("rest"))),
            ), vector=True),
            Assign("total", self.local("total") * self.local("shrink") + self.local("sum")),
            Assign("top", self.local("now")),
        )

    def dots(self, name: str, count: int) -> tuple[Statement, ...]:
        """The scores of `count` neighbouring keys, which share what is read of the query."""
        first, j = var(name) * const(count, "i64"), var(f"{name}.j")
        names = [f"{name}.dot{n}" for n in range(count)]
        rows = [var("key") + (first + const(n, "i64")) * var("key.s") for n in range(count)]
        products = [self.element(QUERY, var("ask") + j) * self.element(KEYS, row + j) for row in rows]
        sums = reduction(
            j.attr, ZERO, self.width, names, [self.number(0)] * count,
            lambda acc: [a + p for a, p in zip(acc, products, strict=True)],
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
        )
        stores = [Store(SCORES, first + const(n, "i64"), self.score(self.local(d))) for n, d in enumerate(names)]
        return (sums, *stores)

    def score(self, dot: Value) -> Value:
        """A product of query and key as it counts."""
        scale, cap = (cast(expr.bitcast(var(name), "f64"), self.compute) for name in ("scale", "cap"))
        return scalars.tanh(dot * scale / cap) * cap if self.capped else dot * scale

    def weighed(self, group: Value, count: int) -> Value:
        """Values of `count` neighbouring keys, each by its power."""
        total = None
        for n in range(count):
            at = group * const(count, "i64") + const(n, "i64")
            value = self.element(VALUES, var("value") + at * var("value.s") + var("c"))
            term = load(SCORES, at, self.compute) * value
            total = term if total is None else total + term
        assert total is not None, "there is a key at least"
        return total


def paged_nest(code: str, width: int, capped: bool) -> Nest:
    """Operands: query, keys, values, tables, sequences, positions, result, what was wrong. How wide heads are is known,
    so that short loops over them are written out."""
    return Pages(code, width, capped).nest()


def paged_schedule(
    code: str, sizes: Sequence[int], strides: Sequence[int], window: int, scale: float, cap: float
) -> Schedule:
    """`sizes`: tokens, heads, heads of keys, width, keys of a page, pages there are, sequences, pages of a table."""
    tokens, heads, own, width, block, blocks, sequences, pages = sizes
    params = (heads, heads // own, block, blocks, sequences, pages, *strides, window, bits_of(scale), bits_of(cap))
    grain = max(1, WORK // (pages * block * width))
    nest = functools.partial(paged_nest, code, width, cap > 0)
    launch = Launch(("paged", code, width, cap > 0), nest, tuple(range(8)), params, tokens * heads, grain, WRONG)
    return Schedule((launch,), (Temp("i64", (1,)),))
