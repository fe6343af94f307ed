"""Loops in memory order: column reductions, and copies of transposed arrays.

Enters: a nest. Leaves: the same nest, except that a vector loop over columns whose body folds rows becomes a loop over
tiles of columns; inside a tile rows are outermost and the accumulators of all its columns live on the stack
(`in_memory_order`), and copies of transposed arrays go in tiles (`in_tiles`).
Refuses: nothing; loops of other shapes stay as they are.

As a column reduction is written, every group of lanes walks down all rows: 64 bytes of each row at a time, each from
another page. In memory order the same sums ran ten times faster on rows of 16 KiB. Each column still folds its rows
in the same order.
"""

from __future__ import annotations

from ...loops.expr import (
    abs_,
    add,
    and_,
    const,
    idiv,
    load,
    lt,
    min_,
    mul,
    ne,
    replace_all,
    select,
    shr,
    sub,
    var,
    walk,
)
from ...loops.nest import Assign, For, If, Local, Nest, Operand, Reduce, Statement, Store, map_values, values_of
from ..text.primitives import SIZE

TILE_BYTES = 16384  # of accumulators: a tile's stay in the first-level cache, and long rows stream from memory
TURNED_TILE = 16  # elements of the inner dimension, each from its own page if the input is transposed
ZERO = const(0, "i64")


def in_memory_order(nest: Nest) -> Nest:
    """`nest` with every column reduction interchanged."""
    rewriter = _Interchange(nest)
    loop = rewriter.statement(nest.loop)
    if not rewriter.scratch:
        return nest
    return Nest(nest.name, (*nest.operands, *rewriter.scratch), nest.params, loop, nest.point)


def in_tiles(nest: Nest) -> Nest:
    """A copy (perhaps with a conversion) that takes its inner dimension in pieces when its input is transposed.

    Otherwise every element of the input comes from another cache line, which is gone before its neighbour,
    one outer step later, is wanted.
    """
    outer = nest.loop
    inner = outer.body[0] if len(outer.body) == 1 else None
    if not nest.point or not isinstance(inner, For) or not inner.vector:
        return nest
    # The loops around tiles take time to compile, so only copies have them: others can be made to copy first.
    if len(nest.operands) != 2 or len(walk(values_of(inner.body))) > 2:
        return nest
    along, across = var("s0.0"), var("s1.0")
    flipped = and_(ne(across, 0), lt(abs_(across), abs_(along)))
    size = inner.stop
    piece = select(flipped, const(TURNED_TILE, "i64"), size)
    count = select(flipped, shr(size + (TURNED_TILE - 1), const(TURNED_TILE.bit_length() - 1, "i64")), const(1, "i64"))
    start = mul(var("tile"), piece)
    body = For(inner.var, var("tile.low"), var("tile.high"), inner.body, True)
    tiles = (
        Local("tile.low", start),
        Local("tile.high", min_(start + piece, size)),
        For(outer.var, outer.start, outer.stop, (body,)),
    )
    return Nest(nest.name, nest.operands, nest.params, For("tile", ZERO, count, tiles), nest.point)


class _Interchange:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.scratch: list[Operand] = []

    def statement(self, s: Statement) -> Statement:
        if isinstance(s, For):
            found = s.vector and not s.gathers and _folding(s)
            if found:
                return self.tiles(s, found)
            if s.vector:
                return s
            return s.but(body=tuple(self.statement(inner) for inner in s.body))
        if isinstance(s, If):
            parts = [tuple(self.statement(inner) for inner in body) for body in (s.then, s.otherwise)]
            return If(s.condition, *parts)
        return s

    def tiles(self, s: For, fold: Reduce) -> For:
        prefix = f"{s.var}.tile"
        width = TILE_BYTES // sum(SIZE[first.dtype] for first in fold.init) // 16 * 16
        first = len(self.nest.operands) + len(self.scratch)
        self.scratch += [Operand(value.dtype, width) for value in fold.init]
        count = idiv(sub(s.stop, s.start) + (width - 1), const(width, "i64"))
        low, high = var(f"{prefix}.low"), var(f"{prefix}.high")
        begin = add(s.start, mul(var(prefix), const(width, "i64")))
        at = sub(var(s.var), low)
        accs = [load(first + k, at, value.dtype) for k, value in enumerate(fold.init)]
        where = s.body.index(fold)
        before, after = s.body[:where], s.body[where + 1 :]
        names = {var(acc, value.dtype): slot for acc, value, slot in zip(fold.accs, fold.init, accs, strict=True)}

        def columns(suffix: str, *body: Statement) -> For:
            """A vector loop over the tile; each gets a variable and locals of its own."""
            inner = For(s.var, low, high, tuple(body), True)
            return _renamed(inner, suffix)

        steps = replace_all(fold.step, names)
        following = [Local(acc + ".next", value) for acc, value in zip(fold.accs, steps, strict=True)]
        stores = [Store(first + k, at, var(local.name, local.value.dtype)) for k, local in enumerate(following)]
        return For(prefix, ZERO, count, (
            Local(low.attr, begin),
            Local(high.attr, min_(begin + width, s.stop)),
            columns(".init", *[Store(first + k, at, value) for k, value in enumerate(fold.init)]),
            For(fold.var, fold.start, fold.stop, (columns(".step", *before, *fold.body, *following, *stores),)),
            columns(".last", *before, *[Local(acc, slot) for acc, slot in zip(fold.accs, accs, strict=True)], *after),
        ))


def _folding(s: For) -> Reduce | None:
    """The Reduce of a vector loop that may be interchanged: after plain locals, with the same bounds for all lanes."""
    lanes = {s.var}
    for inner in s.body:
        if isinstance(inner, Local):
            lanes.add(inner.name)
        elif isinstance(inner, Reduce):
            nodes = walk((inner.start, inner.stop))
            bounds = {v.attr for v in nodes if v.op == "var"}
            if any(v.op in ("load", "arg") for v in nodes):
                return None
            plain = all(isinstance(step, (Local, Store)) for step in inner.body)
            return inner if plain and bounds.isdisjoint(lanes) else None
        else:
            return None
    return None


def _renamed(loop: For, suffix: str) -> For:
    """The loop with its variable and locals renamed: names are declared once in a nest."""
    old = [loop.var, *[s.name for s in loop.body if isinstance(s, Local)]]
    codes = {s.name: s.value.dtype for s in loop.body if isinstance(s, Local)}
    names = {var(name, codes.get(name, "i64")): var(name + suffix, codes.get(name, "i64")) for name in old}
    values = values_of(loop.body)
    body = map_values(loop.body, dict(zip(values, replace_all(values, names), strict=True)))
    body = tuple(Local(s.name + suffix, s.value) if isinstance(s, Local) else _assigned(s, old, suffix) for s in body)
    return For(loop.var + suffix, loop.start, loop.stop, body, loop.vector)


def _assigned(s: Statement, old: list[str], suffix: str) -> Statement:
    """A statement whose Assigns, those of inner loops and branches too, name what `old` locals are called now."""
    if isinstance(s, Assign):
        return s.but(name=s.name + suffix) if s.name in old else s
    fields = {For: ("body",), If: ("then", "otherwise")}.get(type(s), ())
    return s.but(**{f: tuple(_assigned(inner, old, suffix) for inner in getattr(s, f)) for f in fields})
