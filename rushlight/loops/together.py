"""Several nests as one: what several launches do, one does.

Enters: nests with what their operands are among those of the whole, how they run, and what of their parameters is
known. Leaves: one `Nest`, whose parameters are those that parts have in common, and for each part what is not known of
`names`: how many iterations its outer loop has, how many of them make a block, and its own parameters, of which
`scales` says by what to divide them: strides count elements here.

    SERIAL   one item does all of them, one part after the other: each may read what those before it wrote
    BLOCKS   an item is a block of iterations of one part; parts do not touch what others write
    ITEMS    an item is one iteration of one part, of pointwise ones one element

Refuses (`can_join`): tiles of matrix products, memory of a kernel's own, pointwise nests of more than two dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .expr import BITS, Value, const, idiv, load, lt, min_, rebuild, var
from .nest import THERE, Check, For, If, Local, Nest, Operand, Reduce, Statement, Store, has_tiles, rows, values_of
from .record import Record
from .walking import walk

SERIAL, BLOCKS, ITEMS = "serial", "blocks", "items"
_UNKNOWN = 64      # iterations of a loop whose bounds are read from memory
_ZERO = const(0, "i64")


class Part(Record):
    """A nest of several, and the numbers of its operands among those of the whole."""

    nest: Nest
    operands: tuple[int, ...]


def can_join(nest: Nest) -> bool:
    """Whether a nest can be part of another."""
    if any(o.stack for o in nest.operands) or has_tiles(nest.loop.body) or nest.loop.transposed:
        return False
    count = len(nest.operands)
    flat = ("n0", *[f"s{d}.{k}" for d in (0, 1) for k in range(count)])
    return not nest.point or (nest.params == flat and _is_pointwise(nest))


def _is_pointwise(nest: Nest) -> bool:
    body = nest.loop.body
    return len(body) == 1 and isinstance(body[0], For) and body[0].var == "i0"


def scales(nest: Nest) -> list[int]:
    """What each parameter of a nest is divided by when it is part of another."""
    if not nest.point:
        return [1] * len(nest.params)
    sizes = [BITS[o.code] // 8 for o in nest.operands]
    return [1, *sizes, *sizes]


def is_flat(nest: Nest, way: str) -> bool:
    """Whether items of the nest are its elements."""
    return way == ITEMS and bool(nest.point)


def names(number: int, nest: Nest, common: Sequence[str] = ()) -> list[str]:
    """What a part of that number has for parameters; `common` ones are named as they are in it."""
    return [f"count{number}", f"block{number}", *[f"{number}.{own}" for own in nest.params if own not in common]]


def together(name: str, parts: Sequence[Part], codes: Sequence[str], way: str, known: Mapping[str, int],
             common: Sequence[str] = ()) -> Nest:
    """The parts as one nest over operands of these types."""
    own = [p for k, part in enumerate(parts) for p in names(k, part.nest, common)]
    params = [*common, *[p for p in own if p not in known]]
    bodies = [_Moved(k, part, known, common).body(way) for k, part in enumerate(parts)]
    whole: tuple[Statement, ...]
    if way == SERIAL:
        whole = tuple([s for body in bodies for s in body])
    else:
        whole = ()
        for k, body in reversed(list(enumerate(bodies))):
            count, block = [_given(n, known) for n in (f"count{k}", f"block{k}")]
            items = count if way == ITEMS else idiv(count + block - const(1, "i64"), block)
            at = var(f"item{k}")
            rest = (Local(f"item{k + 1}", at - items), *whole) if whole else ()
            whole = (If(lt(at, items), body, rest),)
    return Nest(name, tuple([Operand(code) for code in codes]), tuple(params), rows(*whole, name="item0"))


def _given(name: str, known: Mapping[str, int]) -> Value:
    return const(known[name], "i64") if name in known else var(name)


class _Moved:
    """One part: its names get its number in front, its operands are numbered as those of the whole."""

    def __init__(self, number: int, part: Part, known: Mapping[str, int], common: Sequence[str]) -> None:
        self.number, self.nest, self.operands = number, part.nest, part.operands
        self.known, self.common = known, common
        self.values: dict[Value, Value] = {}
        self.move(part.nest.point)
        self.points = [self.values[v] for v in part.nest.point]
        self.move(values_of(part.nest.loop))

    def move(self, values: Sequence[Value]) -> None:
        for old in walk(values):
            if old.op in ("var", "load", "arg"):
                self.values[old] = self.leaf(old)
            else:
                args = tuple([self.values[a] for a in old.args])
                self.values[old] = old if args == old.args else rebuild(old, args)

    def name(self, name: str) -> str:
        return f"{self.number}.{name}"

    def leaf(self, value: Value) -> Value:
        if value.op == "load":
            return load(self.operands[value.attr], self.values[value.args[0]], value.dtype)
        if value.op == "arg":
            return load(self.operands[value.attr], self.points[value.attr], value.dtype)
        if value.attr == THERE or value.attr in self.common:
            return value
        name = self.name(value.attr)
        return const(self.known[name], "i64") if name in self.known else var(name, value.dtype)

    def body(self, way: str) -> tuple[Statement, ...]:
        loop, own = self.nest.loop, self.name(self.nest.loop.var)
        count, block = [_given(f"{n}{self.number}", self.known) for n in ("count", "block")]
        at = var(f"item{self.number}")
        if way == SERIAL:
            return (For(own, _ZERO, count, self.block(loop.body), loop.vector),)
        if way == BLOCKS:
            first = at * block
            return (For(own, first, min_(first + block, count), self.block(loop.body), loop.vector),)
        if not self.nest.point:
            return (Local(own, at), *self.block(loop.body))
        (inner,) = loop.body
        assert isinstance(inner, For), "pointwise nests are two loops"
        size = _given(self.name("n0"), self.known)
        return (Local(own, idiv(at, size)), Local(self.name("i0"), at - var(own) * size), *self.block(inner.body))

    def block(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple([self.statement(s) for s in body])

    def statement(self, s: Statement) -> Statement:
        given: dict[str, Any] = {}
        for field in s.fields:
            value = getattr(s, field)
            if isinstance(value, Value):
                given[field] = self.values[value]
            elif field in ("var", "name"):
                given[field] = self.name(value)
            elif field == "accs":
                given[field] = tuple([self.name(acc) for acc in value])
            elif field in ("operand", "cell"):
                given[field] = self.operands[value]
            elif isinstance(value, tuple):
                given[field] = tuple([self.values[v] if isinstance(v, Value) else self.statement(v) for v in value])
            else:
                given[field] = value
        if isinstance(s, Store) and s.index is None:
            given["index"] = self.points[s.operand]
        return type(s)(**given)


# --- how much there is to do ------------------------------------------------------------------------------------------


def work_of(nest: Nest, params: Mapping[str, int], count: int) -> int:
    """About how often innermost statements run, for `count` iterations of the outer loop."""
    names = dict(params)
    names[nest.loop.var] = 0
    return count * _work(nest.loop.body, names)


def _work(body: Sequence[Statement], names: dict[str, int]) -> int:
    total = 0
    for s in body:
        if isinstance(s, (For, Reduce)):
            start, stop = _number(s.start, names), _number(s.stop, names)
            times = _UNKNOWN if start is None or stop is None else max(0, stop - start)
            names[s.var] = start or 0
            total += times * max(1, _work(s.body, names))
        elif isinstance(s, If):
            total += max(_work(s.then, names), _work(s.otherwise, names))
        elif not isinstance(s, (Local, Check)):
            total += 1
    return max(1, total)


_RULES: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "min": min, "max": max,
    "idiv": lambda a, b: a // b if b else 0,
}


def _number(value: Value, names: Mapping[str, int]) -> int | None:
    """An index expression as a number; None where names are not known."""
    if value.op == "const":
        return int(value.attr)
    if value.op == "var":
        return names.get(value.attr)
    if value.op not in _RULES:
        return None
    a, b = (_number(arg, names) for arg in value.args)
    return None if a is None or b is None else _RULES[value.op](a, b)


def written(nest: Nest) -> set[int]:
    """The operands that a nest writes to."""
    found: set[int] = set()

    def look(body: Sequence[Statement]) -> None:
        for s in body:
            if isinstance(s, Store):
                found.add(s.operand)
            elif isinstance(s, Check):
                found.add(s.cell)
            for inside in ("body", "then", "otherwise"):
                look(getattr(s, inside, ()))

    look(nest.loop.body)
    return found
