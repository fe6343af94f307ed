"""Sorting by any comparison.

Enters: tensors, a dimension and a body that says whether one element belongs before another. Leaves: `sort` by a key
where the body compares one key of both sides; for other bodies a network of exchanges, about log2(n)² / 2 times the
body, which breaks ties by place. Both are stable. Refuses other bodies over sizes that vary.
"""

from __future__ import annotations

import operator
from typing import Any

from ...fx import Node
from ..syntax import Block, Operation, Value
from ..types import TensorType
from .elementwise import total_order
from .table import FLOATS, body, compatible, distinct, op, regions, require, tensors
from .writer import Writer, dtype


def _sorted(o: Operation) -> list[TensorType]:
    types = tensors(o, 1, 1 << 30)
    for t in types[1:]:
        require(o, compatible(TensorType(t.shape, types[0].element), types[0]), "tensors must have one shape")
    rank = len(types[0].shape)
    dim = o.integer("dimension", -1)
    distinct(o, [dim + rank if dim < 0 else dim], rank, "dimension")
    regions(o, 1)
    body(o, 0, [TensorType((), t.element) for t in types for _ in range(2)], [TensorType((), "i1")])
    o.truth("is_stable", False)
    return types


@op("sort", _sorted)
def sort(w: Writer, o: Operation, *operands: Node) -> list[Node]:
    rank, block = len(o.types[0].shape), o.blocks[0]
    dim = o.integer("dimension", -1) % rank
    found = key_of(block)
    if found is None:
        return network(w, o, list(operands), dim)
    value, descending, total = found
    w.lift(block, [x for x in operands for _ in range(2)], w.shape(operands[0], o.types[0]))
    key, element = w.nodes[value], value.type.element
    if total:
        key = total_order(w, key, element)
    elif element == "i1":
        key = w("_to_copy.default", key, dtype=dtype("ui8"))
    result = w("sort.stable", key, stable=True, dim=dim, descending=descending)
    if len(operands) == 1 and key is operands[0]:
        return [w.node(operator.getitem, result, 0)]
    order = w.node(operator.getitem, result, 1)
    return [w("gather.default", x, dim, order) for x in operands]


def key_of(block: Block) -> tuple[Value, bool, bool] | None:
    """Of a body that compares one key of both sides: the key, whether it goes down, and whether in the total order."""
    made = {v: o for o in block.operations for v in o.results}
    last = made.get(block.operations[-1].operands[0])
    if last is None or last.name != "stablehlo.compare":
        return None
    direction = last.keyword("comparison_direction", ("EQ", "NE", "LT", "LE", "GT", "GE"))
    if direction not in ("LT", "GT"):
        return None
    places = {v: divmod(i, 2) for i, v in enumerate(block.arguments)}
    first, second = last.operands

    def written(v: Value, side: int) -> Any:
        """An expression over the arguments of one side; None where it has something else."""
        if v in places:
            place, own = places[v]
            return ("argument", place) if own == side else None
        o = made.get(v)
        if o is None:
            return ("outside", id(v))
        parts = [written(x, side) for x in o.operands]
        if o.blocks or len(o.results) != 1 or any(p is None for p in parts):
            return None
        return (o.name, repr(sorted(o.attributes.items(), key=lambda item: item[0])), *parts)

    for swapped in (False, True):
        a, b = written(first, int(swapped)), written(second, int(not swapped))
        if a is not None and a == b:
            how = last.attributes.get("compare_type")
            total = getattr(how, "value", how) == "TOTALORDER" and first.type.element in FLOATS
            return first, (direction == "GT") != swapped, total
    return None


def network(w: Writer, o: Operation, values: list[Node], dim: int) -> list[Node]:
    """A bitonic network over a power of two places; those beyond the end stay there."""
    kind, block = o.types[0], o.blocks[0]
    count = kind.shape[dim]
    if count is None:
        raise o.refusal("a comparison like this over a size that varies is not supported")
    if count < 2:
        return values
    size = 1 << (count - 1).bit_length()
    around = [w.size(values[0], kind, d) for d in range(len(kind.shape)) if d != dim]
    values = [w("movedim.int", x, dim, -1) for x in values]
    values = [w("constant_pad_nd.default", x, [0, size - count], 0) for x in values]
    values.append(w("expand.default", w.arange(size), [*around, size]))
    run = 2
    while run <= size:
        apart = run // 2
        while apart:
            values = exchanged(w, block, values, around, size, run, apart, count)
            apart //= 2
        run *= 2
    return [w("movedim.int", w("slice.Tensor", x, -1, 0, count), -1, dim) for x in values[:-1]]


def exchanged(w: Writer, block: Block, values: list[Node], around: list[Any], size: int, run: int, apart: int,
              count: int) -> list[Node]:
    """One step: elements `apart` from each other change places where they are in the wrong order."""
    rows = size // (2 * apart)
    split = [w("unflatten.int", x, -1, [rows, 2, apart]) for x in values]
    first, second = ([w("select.int", x, -2, side) for x in split] for side in (0, 1))
    shape = [*around, rows, apart]
    (*a, a_place), (*b, b_place) = first, second
    before = w.lift(block, [x for pair in zip(a, b, strict=True) for x in pair], shape)[0]
    after = w.lift(block, [x for pair in zip(b, a, strict=True) for x in pair], shape)[0]
    earlier = w("lt.Tensor", a_place, b_place)
    tie = w("logical_and.default", w("eq.Tensor", before, after), earlier)
    ordered = w("logical_or.default", w("logical_and.default", before, w("logical_not.default", after)), tie)
    inside = w("logical_and.default", w("lt.Scalar", a_place, count), w("lt.Scalar", b_place, count))
    ordered = w("where.self", inside, ordered, earlier)
    if run < size:      # every second run goes down, so that two of them rise and fall
        row = w("view.default", w("mul.Scalar", w.arange(rows), 2 * apart), [rows, 1])
        upward = w("eq.Scalar", w("bitwise_and.Scalar", row, run), 0)
        ordered = w("eq.Tensor", ordered, upward)
    pairs = [(w("where.self", ordered, x, y), w("where.self", ordered, y, x))
             for x, y in zip(first, second, strict=True)]
    return [w("flatten.using_ints", w("stack.default", list(pair), -2), -3, -1) for pair in pairs]
