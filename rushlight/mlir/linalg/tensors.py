"""Tensors of the linalg dialect: sizes, empty and constant ones, other shapes, and loops over elements.

Enters: a builder, and what sizes that vary are called. Leaves: operations of `tensor`, `arith` and `linalg`.
`Tensors.generic` is the loop that all rules stand on: its body is scalar expressions whose reads of tensors become
operands with an affine map where they are at loop positions, and `tensor.extract` where they are anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...loops import expr
from ...loops.expr import Value, call, const, var, walk
from ...op.pack import BY_CODE
from .. import types
from ..building import Builder
from ..printing import Block, Operation, Value as Built
from ..types import TensorType
from .scalars import READ, Scalars, element_of, is_read

INDEX = "index"


def named(t: Built) -> str:
    """The code of a tensor's elements."""
    return t.dtype.code


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are the same for certain; symbols are compared by what they say."""
    return a == b if type(a) is int and type(b) is int else str(a) == str(b)


def product(sizes: Sequence[Any]) -> Any:
    result: Any = 1
    for n in sizes:
        result = n if type(result) is int and result == 1 else result if type(n) is int and n == 1 else result * n
    return result


def loop(d: int) -> Value:
    """The position along range d."""
    return var(f"i{d}")


class Tensors:
    """The operations of one module. `size_of(n)` builds the index that a symbolic size is."""

    def __init__(self, b: Builder, size_of: Callable[[Any], Built]) -> None:
        self.b, self.size_of = b, size_of
        self.sizes: dict[str, Any] = {}      # what variables that stand for sizes are

    # --- sizes --------------------------------------------------------------------------------------------------------

    def index(self, n: Any) -> Built:
        """A size as an index."""
        if type(n) is not int:
            return self.size_of(n)
        return self.b.op("arith.constant", [], Built(INDEX), {"value": f"{n} : index"})

    def extent(self, n: Any) -> Value:
        """A size in an expression."""
        if type(n) is int:
            return const(n, "i64")
        self.sizes[str(n)] = n
        return var(f"size:{n}")

    # --- tensors ------------------------------------------------------------------------------------------------------

    def like(self, code: str, shape: Sequence[Any]) -> Built:
        """A tensor that is yet to be named."""
        kind = TensorType(tuple([n if type(n) is int else None for n in shape]), element_of(code))
        return Built(kind, BY_CODE[code], shape)

    def empty(self, code: str, shape: Sequence[Any]) -> Built:
        return self.b.op("tensor.empty", [self.index(n) for n in shape if type(n) is not int], self.like(code, shape))

    def constant(self, code: str, shape: Sequence[int], values: Sequence[Any]) -> Built:
        result = self.like(code, shape)
        return self.b.op("arith.constant", [], result, {"value": types.dense(list(values), result.type)})

    def full(self, code: str, shape: Sequence[Any], value: Any) -> Built:
        """A tensor of one number."""
        if all(type(n) is int for n in shape):
            result = self.like(code, shape)
            return self.b.op("arith.constant", [], result, {"value": types.splat(value, result.type)})
        scalars = Scalars(self.b, self.nothing)
        number, into = scalars.constant(value, code), self.empty(code, shape)
        one = Built(element_of(code)), Built(element_of(code))
        block = self.b.region(one, lambda x, _: [x], "linalg.yield")
        return self.b.op("linalg.fill", [number, into], self.like(code, shape),
                         {"operandSegmentSizes": "array<i32: 1, 1>"}, [block])

    def reshape(self, t: Built, shape: Sequence[Any]) -> Built:
        """The elements in the same order, in another shape of as many."""
        if len(t.shape) == len(shape) and all(map(same, t.shape, shape)):
            return t
        groups = grouped(t.shape, shape)
        if groups is not None:
            return self.regrouped(t, shape, groups)
        flat = self.regrouped(t, [product(t.shape)], [(tuple(range(t.ndim)), (0,))]) if t.ndim != 1 else t
        return self.regrouped(flat, shape, [((0,), tuple(range(len(shape))))])

    def regrouped(self, t: Built, shape: Sequence[Any], groups: Sequence[tuple]) -> Built:
        """Dims joined, or divided; `groups` are dims of the one and of the other."""
        code, result = named(t), self.like(named(t), shape)
        narrows = len(shape) < t.ndim
        listed = ", ".join(f"[{', '.join(map(str, g[0 if narrows else 1]))}]" for g in groups)
        reassociation = {"reassociation": f"[{listed if 0 not in (t.ndim, len(shape)) else ''}]"}
        if len(shape) == t.ndim:      # the same sizes by other names
            return self.b.op("tensor.cast", [t], self.like(code, shape))
        if narrows:
            return self.b.op("tensor.collapse_shape", [t], result, reassociation)
        dynamic = [self.index(n) for n in shape if type(n) is not int]
        static = ", ".join(str(n) if type(n) is int else str(-(1 << 63)) for n in shape)
        return self.b.op("tensor.expand_shape", [t, *dynamic], result,
                         {**reassociation, "static_output_shape": f"array<i64: {static}>" if shape else "array<i64>"})

    def nothing(self, value: Value, scalars: Scalars) -> Built:
        raise NotImplementedError(f"{value} outside of loops")

    # --- loops --------------------------------------------------------------------------------------------------------

    def read(self, tensors: list[Built], t: Built, at: Sequence[Value]) -> Value:
        """The element of a tensor at indices, in a body over `tensors`."""
        if not any(x is t for x in tensors):
            tensors.append(t)
        number = next(k for k, x in enumerate(tensors) if x is t)
        return call(f"{READ}{number}", *at, dtype=named(t)) if at else expr.node(
            "call", (), named(t), f"{READ}{number}")

    def pointwise(self, ranges: Sequence[Any], tensors: Sequence[Built], values: Sequence[Value],
                  checks: Sequence[Value] = ()) -> list[Built]:
        """A tensor for each value, over all positions of `ranges`."""
        inits = [self.empty(v.dtype, ranges) for v in values]
        return self.generic(ranges, frozenset(), tensors, inits, lambda s, accs: s.all(values), values, checks)

    def generic(self, ranges: Sequence[Any], reduced: frozenset[int], tensors: Sequence[Built], inits: Sequence[Built],
                body: Callable[[Scalars, Sequence[Built]], Sequence[Built]], reads: Sequence[Value],
                checks: Sequence[Value] = ()) -> list[Built]:
        """`linalg.generic`. `body` builds what is stored, of the accumulators' present values; `reads` are expressions
        in which all reads at loop positions occur."""
        direct: dict[Value, Built] = {}
        maps, operands = [], []
        seen: set[int] = set()
        for e in walk((*reads, *checks)):
            if is_read(e) and e not in direct:
                places = self.places(e, tensors, ranges)
                if places is not None:
                    source = tensors[int(str(e.attr)[len(READ):])]
                    direct[e] = Built(element_of(e.dtype))
                    operands.append(source)
                    maps.append(places)
                    seen |= {d for d in range(len(ranges)) if f"d{d}" in places}
        for d in sorted(reduced - seen):      # a range that no operand has is one of nothing
            operands.append(self.empty("i8", [ranges[d]]))
            maps.append((f"d{d}",))
            direct[var(f"nothing:{d}")] = Built("i8")
        kept = tuple([f"d{d}" for d in range(len(ranges)) if d not in reduced])
        arguments = [*direct.values(), *[Built(element_of(named(t))) for t in inits]]

        def built(*given: Built) -> Sequence[Built]:
            s = Scalars(self.b, lambda e, s: self.leaf(e, s, tensors), direct)
            for d in range(len(ranges)):
                s.known.pop(loop(d), None)
            self.check(s, checks)
            return body(s, given[len(direct):])

        block = self.b.region(arguments, built, "linalg.yield")
        heads = "(" + ", ".join(f"d{d}" for d in range(len(ranges))) + ")"
        listed = [*maps, *[kept for _ in inits]]
        written = [f"affine_map<{heads} -> ({', '.join(m)})>" for m in listed]
        kinds = [f"#linalg.iterator_type<{'reduction' if d in reduced else 'parallel'}>" for d in range(len(ranges))]
        attributes = {
            "indexing_maps": f"[{', '.join(written)}]", "iterator_types": f"[{', '.join(kinds)}]",
            "operandSegmentSizes": f"array<i32: {len(operands)}, {len(inits)}>",
        }
        results = [self.like(named(t), t.shape) for t in inits]
        return self.b.ops("linalg.generic", [*operands, *inits], results, attributes, [block])

    def check(self, s: Scalars, conditions: Sequence[Value]) -> None:
        """`cf.assert` for indices."""
        for condition in conditions:
            self.b.block.operations.append(Operation("cf.assert", [s.of(condition)], [], {
                "msg": types.string("index out of range")}, (), self.b.location))

    def places(self, e: Value, tensors: Sequence[Built], ranges: Sequence[Any]) -> tuple[str, ...] | None:
        """An element's indices as affine expressions of positions that never leave the tensor; None where they are
        anything else."""
        source, found = tensors[int(str(e.attr)[len(READ):])], []
        for n, at in zip(source.shape, e.args, strict=True):
            if at.op == "const" and at.attr == 0:
                found.append("0")
            elif is_position(at) and same(n, ranges[range_of(at)]):
                found.append(f"d{range_of(at)}")
            else:
                terms = affine(at)
                if terms is None or terms == [(terms[0][0], 1)]:      # a plain position is one of the whole dim
                    return None
                if type(n) is not int or not all(type(ranges[d]) is int for d, _ in terms):
                    return None
                if sum((ranges[d] - 1) * by for d, by in terms) >= n or any(ranges[d] == 0 for d, _ in terms):
                    return None
                found.append(" + ".join(f"d{d} * {by}" if by != 1 else f"d{d}" for d, by in terms))
        return tuple(found)

    def leaf(self, e: Value, s: Scalars, tensors: Sequence[Built]) -> Built:
        """A variable or an element within a body."""
        if is_read(e):
            source = tensors[int(str(e.attr)[len(READ):])]
            return self.b.op("tensor.extract", [source, *[self.as_index(a, s) for a in e.args]],
                             Built(element_of(e.dtype)))
        if e.op == "table":
            held = self.constant(e.dtype, (len(e.attr),), e.attr)
            return self.b.op("tensor.extract", [held, self.as_index(e.args[0], s)], Built(element_of(e.dtype)))
        if e.op == "var" and e.attr.startswith("size:"):
            return self.number(self.index(self.sizes[e.attr[5:]]))
        if is_position(e):
            return self.number(self.position(range_of(e)))
        raise NotImplementedError(f"{e} in a body")

    def position(self, d: int) -> Built:
        return self.b.op("linalg.index", [], Built(INDEX), {"dim": f"{d} : i64"})

    def number(self, index: Built) -> Built:
        """An index as a 64-bit integer."""
        return self.b.op("arith.index_cast", [index], Built("i64"))

    def as_index(self, e: Value, s: Scalars) -> Built:
        """An integer expression as an index."""
        if e.op == "const":
            return self.index(int(e.attr))
        if is_position(e) and e not in s.known:
            return self.position(range_of(e))
        return self.b.op("arith.index_cast", [s.of(e)], Built(INDEX))

    def repeat(self, s: Scalars, first: Built, past: Built, position: Value, given: Sequence[Built],
               body: Callable[[Scalars, Sequence[Built]], Sequence[Built]]) -> list[Built]:
        """`scf.for` from first to past, indices; `position` is where it is, in expressions."""
        iv = Built(INDEX)
        carried = [Built(v.type, v.dtype, v.shape) for v in given]

        def built(at: Built, *now: Built) -> Sequence[Built]:
            inner = s.inside()
            inner.known[position] = self.number(at)
            return body(inner, now)

        block: Block = self.b.region([iv, *carried], built, "scf.yield")
        results = [Built(v.type, v.dtype, v.shape) for v in given]
        return self.b.ops("scf.for", [first, past, self.index(1), *given], results, {}, [block])


def is_position(e: Value) -> bool:
    """Whether a value is where a loop is along a range."""
    return e.op == "var" and e.attr[0] == "i" and e.attr[1:].isdigit()


def range_of(e: Value) -> int:
    return int(e.attr[1:])


def affine(e: Value) -> list[tuple[int, int]] | None:
    """Positions and their factors, above 0, of which an index is the sum; None of any other."""
    if is_position(e):
        return [(range_of(e), 1)]
    if e.op == "mul" and is_position(e.args[0]) and e.args[1].op == "const" and e.args[1].attr > 0:
        return [(range_of(e.args[0]), e.args[1].attr)]
    if e.op == "add":
        parts = [affine(a) for a in e.args]
        return None if None in parts else [term for p in parts for term in p or ()]
    return None


def grouped(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """Dims of the one shape and of the other that go together, where one has all dims of the other but divided."""
    if len(old) == len(new) or not all(type(n) is int for n in (*old, *new)):
        return None
    if not old or not new:
        return [((), ())]
    many, few = (old, new) if len(old) > len(new) else (new, old)
    groups, at = [], 0
    for k, n in enumerate(few):
        first, total = at, 1
        left = len(few) - k - 1
        while at < len(many) and (total != n or at == first) and len(many) - at > left:
            total *= many[at]
            at += 1
        while total == n and at < len(many) and many[at] == 1 and len(many) - at > left:
            at += 1
        if total != n or at == first:
            return None
        groups.append((tuple(range(first, at)), (k,)))
    if at != len(many):
        return None
    return groups if many is old else [(b, a) for a, b in groups]
