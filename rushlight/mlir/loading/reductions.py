"""Reductions with any body, whole, in windows, and windows that choose where something is added.

Enters: tensors, starting values and a body of two scalars (or of two for each tensor). Leaves: `sum`, `amax` and the
like where the body is one of those; otherwise the body over halves, in the order of the elements, so that a reduction
of n elements is about log2(n) times the body. Refuses bodies that are not made of element-wise operations, and sizes
that vary under a body without a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...fx import Node
from ..constants import width
from ..syntax import Block, Operation
from ..types import TensorType
from .scattering import scattered, single
from .shapes import padded
from .table import FLOATS, UNSIGNED, body, compatible, counted, distinct, op, regions, require, scalar, tensors
from .writer import Writer, dtype

Combine = Callable[[list[Node], list[Node], list[int]], list[Node]]

def neutral(name: str | None, element: str) -> Any:
    """The number that changes nothing, for an operation that has one."""
    if name in ("add", "or"):
        return 0
    if name == "multiply":
        return 1
    if name == "and":
        return 1 if element == "i1" else (1 << width(element)) - 1 if element in UNSIGNED else -1
    if name not in ("maximum", "minimum"):
        return None
    if element in FLOATS:
        return -math.inf if name == "maximum" else math.inf
    bits = width(element)
    low, high = (0, 1) if element == "i1" else (0, (1 << bits) - 1) if element in UNSIGNED else (
        -(1 << bits - 1), (1 << bits - 1) - 1)
    return low if name == "maximum" else high


def is_neutral(w: Writer, init: Node, name: str | None, element: str) -> bool:
    """Whether a starting value changes nothing."""
    wanted = neutral(name, element)
    return init in w.literals and wanted is not None and bool(w.literals[init] == wanted)


# --- whole ------------------------------------------------------------------------------------------------------------


def _reducible(o: Operation) -> tuple[list[TensorType], list[TensorType]]:
    """The types of what is reduced and of starting values."""
    types = tensors(o, 2, 1 << 30)
    require(o, len(types) % 2 == 0, "expected as many starting values as tensors")
    values, inits = types[:len(types) // 2], types[len(types) // 2:]
    for t, init in zip(values, inits, strict=True):
        require(o, compatible(TensorType(t.shape, values[0].element), values[0]), "tensors must have one shape")
        require(o, scalar(o, init, "a starting value").element == t.element,
                f"a starting value must have elements of {t.element}, got {init}")
    regions(o, 1)
    scalars = [TensorType((), t.element) for t in values]
    body(o, 0, [*scalars, *scalars], scalars)
    return values, inits


def _reduced(o: Operation) -> list[TensorType]:
    values, _ = _reducible(o)
    dims = o.integers("dimensions")
    distinct(o, dims, len(values[0].shape), "dimensions")
    shape = tuple([n for d, n in enumerate(values[0].shape) if d not in dims])
    return [TensorType(shape, t.element) for t in values]


@op("reduce", _reduced)
def reduce(w: Writer, o: Operation, *operands: Node) -> list[Node]:
    count = len(operands) // 2
    values, inits, kinds = list(operands[:count]), operands[count:], o.types[:count]
    dims, block = sorted(o.integers("dimensions")), o.blocks[0]
    kept = [d for d in range(len(kinds[0].shape)) if d not in dims]
    shape = [w.size(values[0], kinds[0], d) for d in kept]
    if not dims:
        return values
    if any(kinds[0].shape[d] == 0 for d in dims):
        return [w("expand.default", init, shape) if shape else init for init in inits]
    name = single(block, 0, 1) if count == 1 else None
    found = named(w, name, values[0], kinds[0].element, dims) if name else None
    if found is not None:
        if is_neutral(w, inits[0], name, kinds[0].element):
            return [found]
        return w.lift(block, [inits[0], found], shape)
    folded = [whole(w, o, x, t, dims, kept, shape) for x, t in zip(values, kinds, strict=True)]
    total = math.prod(kinds[0].shape[d] or 0 for d in dims)
    folded = halves(w, folded, total, shape, lifting(w, block))
    return w.lift(block, [*inits, *folded], shape)


def named(w: Writer, name: str | None, x: Node, element: str, dims: list[int]) -> Node | None:
    """A reduction that has a name."""
    if element == "i1":
        if name in ("add", "or", "maximum"):
            return w("any.dims", x, dims)
        return w("all.dims", x, dims) if name in ("and", "multiply", "minimum") else None
    if name == "add":
        return w("sum.dim_IntList", x, dims, dtype=dtype(element))
    if name == "multiply":
        for d in reversed(dims):
            x = w("prod.dim_int", x, d, dtype=dtype(element))
        return x
    if name in ("maximum", "minimum"):
        return w("amax.default" if name == "maximum" else "amin.default", x, dims)
    return None


def whole(w: Writer, o: Operation, x: Node, kind: TensorType, dims: list[int], kept: list[int], shape: list[int]
          ) -> Node:
    """What is reduced as the first dimension, in the order of the elements."""
    if any(kind.shape[d] is None for d in dims):
        raise o.refusal("a body like this over a size that varies is not supported")
    moved = w("permute.default", x, [*dims, *kept])
    return w("reshape.default", moved, [math.prod(kind.shape[d] or 0 for d in dims), *shape])


def lifting(w: Writer, block: Block) -> Combine:
    return lambda a, b, shape: w.lift(block, [*a, *b], shape)


def halves(w: Writer, values: list[Node], count: int, shape: list[int], combine: Combine) -> list[Node]:
    """Fold the first dimension: neighbours with neighbours, then pairs with pairs; odd ones wait for the end."""
    waiting: list[list[Node]] = []
    while count > 1:
        if count % 2:
            waiting.append([w("select.int", x, 0, count - 1) for x in values])
            values = [w("slice.Tensor", x, 0, 0, count - 1) for x in values]
        count //= 2
        pairs = [w("unflatten.int", x, 0, [count, 2]) for x in values]
        first, second = ([w("select.int", x, 1, side) for x in pairs] for side in (0, 1))
        values = combine(first, second, [count, *shape])
    values = [w("select.int", x, 0, 0) for x in values]
    for last in reversed(waiting):
        values = combine(values, last, shape)
    return values


# --- windows ----------------------------------------------------------------------------------------------------------


class Window:
    """How windows lie over the dimensions of a tensor."""

    def __init__(self, o: Operation, rank: int) -> None:
        ones = [1] * rank
        self.sizes = o.integers("window_dimensions", None if o.name.endswith("reduce_window") else ones)
        self.strides = o.integers("window_strides", ones)
        self.base = o.integers("base_dilations", ones)
        self.dilations = o.integers("window_dilations", ones)
        self.padding = o.pairs("padding", [(0, 0)] * rank)
        for what in ("sizes", "strides", "base", "dilations", "padding"):
            counted(o, getattr(self, what), rank, f"the window's {what}")
        for what in ("sizes", "strides", "base", "dilations"):
            require(o, all(n >= 1 for n in getattr(self, what)), f"the window's {what} must be at least 1")

    def reach(self, d: int) -> int:
        return (self.sizes[d] - 1) * self.dilations[d] + 1

    def padded(self, n: int, d: int) -> int:
        return (n - 1) * self.base[d] + 1 + sum(self.padding[d]) if n else sum(self.padding[d])

    def count(self, n: int | None, d: int) -> int | None:
        """How many windows there are along a dimension."""
        if n is None:
            return None
        room = self.padded(n, d) - self.reach(d)
        return room // self.strides[d] + 1 if room >= 0 else 0


def _windowed(o: Operation) -> list[TensorType]:
    values, _ = _reducible(o)
    window = Window(o, len(values[0].shape))
    shape = tuple([window.count(n, d) for d, n in enumerate(values[0].shape)])
    return [TensorType(shape, t.element) for t in values]


@op("reduce_window", _windowed)
def reduce_window(w: Writer, o: Operation, *operands: Node) -> list[Node]:
    count, block = len(operands) // 2, o.blocks[0]
    kinds, inits = o.types[:count], operands[count:]
    window = Window(o, len(kinds[0].shape))
    known = static(o, kinds[0])
    shape = [window.count(n, d) or 0 for d, n in enumerate(known)]
    if 0 in shape:
        return [w("expand.default", init, shape) for init in inits]
    lows, highs = [p[0] for p in window.padding], [p[1] for p in window.padding]
    gaps = [b - 1 for b in window.base]
    number = neutral(single(block, 0, 1), kinds[0].element) if count == 1 else None
    fills = inits if number is None else [w.scalar(number, kinds[0].element)]
    values = [padded(w, x, t, fill, lows, highs, gaps) for x, t, fill in zip(operands, kinds, fills, strict=False)]
    folded = slid(w, values, window, known, lifting(w, block))
    if count == 1 and is_neutral(w, inits[0], single(block, 0, 1), kinds[0].element):
        return folded
    return w.lift(block, [*inits, *folded], shape)


def static(o: Operation, kind: TensorType) -> list[int]:
    if None in kind.shape:
        raise o.refusal("windows over sizes that vary are not supported")
    return [n or 0 for n in kind.shape]


def slid(w: Writer, values: list[Node], window: Window, sizes: list[int], combine: Combine) -> list[Node]:
    """Fold the windows of padded tensors, the last dimension first: of 1, 2, 4, ... neighbours each from two halves,
    and a window from those that add up to it."""
    shape = [window.padded(n, d) for d, n in enumerate(sizes)]
    for d in reversed(range(len(shape))):
        count, step, stride = window.sizes[d], window.dilations[d], window.strides[d]
        places = (shape[d] - window.reach(d)) // stride + 1
        taken, length, level = 0, shape[d], values
        shape[d] = places
        result: list[Node] = []
        size = 1
        while taken < count:
            if count & size:
                begin = taken * step
                part = [w("slice.Tensor", x, d, begin, begin + (places - 1) * stride + 1, stride) for x in level]
                result = combine(result, part, list(shape)) if result else part
                taken += size
            if taken < count:
                length -= size * step
                around = [*shape[:d], length, *shape[d + 1:]]
                first = [w("slice.Tensor", x, d, 0, length) for x in level]
                second = [w("slice.Tensor", x, d, size * step, size * step + length) for x in level]
                level = combine(first, second, around)
            size *= 2
        values = result
    return values


# --- windows that choose ----------------------------------------------------------------------------------------------


def _chosen(o: Operation) -> list[TensorType]:
    x, source, init = tensors(o, 3)
    one = TensorType((), x.element)
    require(o, scalar(o, init, "the starting value").element == x.element == source.element,
            f"operands must have one type of elements, got {x}, {source} and {init}")
    regions(o, 2)
    body(o, 0, [one, one], [TensorType((), "i1")])
    body(o, 1, [one, one], [one])
    window = Window(o, len(x.shape))
    wanted = TensorType(tuple([window.count(n, d) for d, n in enumerate(x.shape)]), x.element)
    require(o, compatible(source, wanted), f"there are windows for {wanted}, got {source}")
    return [x]


@op("select_and_scatter", _chosen)
def select_and_scatter(w: Writer, o: Operation, x: Node, source: Node, init: Node) -> Node:
    kind = o.types[0]
    sizes, window = static(o, kind), Window(o, len(kind.shape))
    total = math.prod(sizes)
    start = w("expand.default", init, [total])
    if total == 0 or 0 in [window.count(n, d) for d, n in enumerate(sizes)]:
        return w("view.default", w("clone.default", start), sizes)
    places = w("view.default", w.arange(total), sizes)
    lows, highs = [p[0] for p in window.padding], [p[1] for p in window.padding]
    gaps = [0] * len(sizes)
    values = [padded(w, x, kind, w.scalar(0, kind.element), lows, highs, gaps),
              padded(w, places, TensorType(kind.shape, "i64"), w.scalar(-1, "i64"), lows, highs, gaps)]

    def choose(a: list[Node], b: list[Node], shape: list[int]) -> list[Node]:
        wins = w.lift(o.blocks[0], [a[0], b[0]], shape)[0]
        wins = w("logical_and.default", wins, w("ge.Scalar", a[1], 0))
        keeps = w("logical_or.default", wins, w("lt.Scalar", b[1], 0))
        return [w("where.self", keeps, p, q) for p, q in zip(a, b, strict=True)]

    _, place = slid(w, values, window, sizes, choose)
    inside = w("where.self", w("ge.Scalar", place, 0), place, w.scalar(total, "i64"))
    flat = [w("reshape.default", n, [-1, 1]) for n in (inside, source)]
    result = scattered(w, [start], [total], flat[0], [flat[1]], o.blocks[1], [kind.element], unique=False)
    return w("view.default", result[0], sizes)

