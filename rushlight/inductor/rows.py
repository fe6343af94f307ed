"""Units of rows: pointwise ops, fused bodies and folds over the same rows as one row program.

Enters: a unit's nodes, in order, and how many trailing dims make a row. Leaves: which nodes fit (`kind_of`,
`fits_rows`), and the `RowProgram` (loops/row_program.py) of a unit. Every tensor of it is full (all elements), row (one
number per row) or column (one row for all).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.schedule.forms.launch import product
from ..loops.lowered import Lowered, Memory, Number, TwoPass, compute_code
from ..loops.row_program import COLUMN, FULL, ROW, RowNode, RowOperand, RowProgram
from ..op.extents import Extent
from ..op.fused import INNER, OUTER, Stand, like
from .read_graph import Node
from .values import Buffer, Value, named

FEWEST_ROWS = 16         # rows are what threads share: few of them are better folded otherwise


class Shape:
    """The rows of a unit: sizes of the whole, and how many trailing dims are one row."""

    def __init__(self, sizes: Sequence[int], inner: int) -> None:
        self.sizes, self.inner = tuple(sizes), inner
        self.outer = self.sizes[: len(self.sizes) - inner]
        self.count, self.cols = product(self.outer), product(self.sizes[len(self.sizes) - inner :])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.count, self.cols) == (other.count, other.cols)

    __hash__ = None     # type: ignore[assignment]

    def kind(self, value: Value) -> str | None:
        """What the value is to these rows; None where it is nothing they can read."""
        if not value.is_contiguous:
            return FULL if value.sizes == self.sizes and value.line(self.inner) is not None else None
        if value.sizes == self.sizes:
            return FULL
        if value.sizes == (*self.outer, *(1,) * self.inner):
            return ROW
        short = value.sizes[max(0, len(value.sizes) - self.inner) :]
        lone = all(n == 1 for n in value.sizes[: len(value.sizes) - len(short)])
        return COLUMN if lone and short == self.sizes[len(self.outer) :] else None


def shape_of_rows(node: Node) -> Shape | None:
    """The rows that a node works on by itself: those of a fused body, or of a fold of trailing dims."""
    if node.form == "rows":
        args = node.args
        main = node.definition.main(as_tensors(args))
        return Shape(main.of.sizes, node.definition.row_dims(*as_tensors(args)))
    if node.form == "fold":
        lowered, rank = node.lowered, len(node.lowered.ranges)
        reduced = lowered.folding.reduced
        inner = len(reduced)
        if not inner or reduced != frozenset(range(rank - inner, rank)) or len(node.results) != 1:
            return None
        if (
            isinstance(lowered.folding.fold, TwoPass)
            or lowered.folding.fold.uses_index
            or lowered.folding.epilogue is not None
        ):
            return None
        return Shape(lowered.ranges, inner)
    return None


class _Shown:
    """A value as `row_dims` and `main` ask about it."""

    def __init__(self, value: Value) -> None:
        self.of, self.shape, self.ndim, self.dtype = value, value.sizes, len(value.sizes), value.dtype


def as_tensors(args: tuple) -> tuple:
    return tuple([_Shown(a) if isinstance(a, Value) else a for a in args])


def is_reachable(node: Node, shape: Shape) -> bool:
    """Whether the node can be part of a program over these rows."""
    if node.form == "points":
        if any(isinstance(r, Number) and isinstance(r.value, Extent) for r in node.lowered.reads):
            return False          # numbers are part of a row program; those of other calls are other numbers
        kinds = [shape.kind(v) for v in node.inputs]
        result = node.results[0]
        if not result.is_contiguous or result.sizes not in (shape.sizes, (*shape.outer, *(1,) * shape.inner)):
            return False
        return None not in kinds and (result.sizes == shape.sizes or (FULL not in kinds and COLUMN not in kinds))
    own = shape_of_rows(node)
    return (
        own is not None
        and own == shape
        and own.inner == shape.inner
        and own.sizes == shape.sizes
        and all(v.is_contiguous or shape.kind(v) == FULL for v in node.inputs)
    )


def joined_shape(nodes: Sequence[Node], shape: Shape | None, node: Node) -> Shape | None:
    """The rows of the nodes together with one more; None where they have none in common."""
    shape = shape or shape_of_rows(node)
    if shape is None or shape.cols == 1:
        return None
    if not is_reachable(node, shape) or not all(is_reachable(n, shape) for n in nodes):
        return None
    every = (*nodes, node)
    if shape.count < FEWEST_ROWS and any(n.form == "fold" for n in every):
        return None
    return shape if sum([n.form == "rows" and n.definition.index_operand is not None for n in every]) <= 1 else None


# --- the program ------------------------------------------------------------------------------------------------------


class Builder:
    """Makes the row nodes of a unit."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.nodes: dict[Buffer, RowNode] = {}
        self.inputs: list[Value] = []
        self.operands: list[RowOperand] = []
        self.known: dict[tuple, RowNode] = {}
        self.keys: list[tuple] = []
        self.names: dict[int, int] = {}          # id of a row node -> its number, for keys
        self.bound: int | None = None
        self.ignored: int | None = None
        self.on_error: Any = None

    def read(self, value: Value, kind: str) -> RowNode:
        if value.buffer in self.nodes:
            return self.nodes[value.buffer]
        where = (value.buffer, named(value.offset), kind, value.dtype)
        if where not in self.known:
            code = value.dtype.code
            self.known[where] = RowNode("leaf", kind, code, operand=len(self.inputs))
            self.inputs.append(value)
            self.operands.append(RowOperand(code, kind, code))
            self.number(self.known[where])
        return self.known[where]

    def number(self, node: RowNode) -> int:
        return self.names.setdefault(id(node), len(self.names))

    def add(self, node: Node) -> None:
        {"points": self.points, "fold": self.fold, "rows": self.body}[node.form](node)

    def points(self, node: Node) -> None:
        lowered = node.lowered
        kinds = [self.shape.kind(v) for v in node.inputs]
        parts = [self.read(v, kind) for v, kind in zip(node.inputs, kinds, strict=True)]
        kind = FULL if node.results[0].sizes == self.shape.sizes else ROW
        self.key(
            "points",
            lowered.key,
            lowered.outs,
            [(type(r.value), str(r.value)) for r in lowered.reads if isinstance(r, Number)],
            parts,
        )
        for k, v in enumerate(node.results):
            self.define(v, RowNode("points", kind, lowered.outs[k], parts, one_result(lowered, k)))

    def fold(self, node: Node) -> None:
        part = self.read(node.inputs[0], FULL)
        self.key("fold", node.lowered.key, node.lowered.outs, [], [part])
        self.define(node.results[0], RowNode("fold", ROW, node.lowered.outs[0], [part], node.lowered))

    def body(self, node: Node) -> None:
        """A fused body, traced over the nodes that its operands are."""
        definition, shape = node.definition, self.shape
        rank = len(shape.sizes)
        outer, inner = (OUTER,) * (rank - shape.inner), (INNER,) * shape.inner
        shapes = {FULL: (*outer, *inner), ROW: (*outer, *(1,) * shape.inner), COLUMN: inner}
        args, parts, static = list(node.args), [], []
        for k, (p, a) in enumerate(zip(definition.spec.params, node.args, strict=True)):
            if not isinstance(a, Value):
                static.append(str(a))
                continue
            kind = definition.kind_of(p.name)
            part = self.widened(self.read(a, kind))
            if p.name == definition.index_operand:
                self.bound, self.on_error = part.operand, lambda index: definition.bad_index(index, shape.cols)
                self.ignored = definition.ignored_index(*node.args)
            parts.append(part)
            args[k] = Stand(part, like(shapes[kind], part.code))
        result = definition.compute(*args)
        self.key("fused", definition, tuple(static), [], parts)
        results = [r for r in (result if isinstance(result, tuple) else (result,)) if r is not None]
        for v, r in zip(node.results, results, strict=True):
            # A sum over all rows is rounded where its parts meet, after the loop.
            self.define(v, r.node if r.node.form == "total" else converted(r.node, v.dtype.code))

    def widened(self, node: RowNode) -> RowNode:
        """Fused bodies compute half types in single precision from the start."""
        return converted(node, compute_code(node.code))

    def define(self, value: Value, node: RowNode) -> None:
        self.nodes[value.buffer] = node
        self.number(node)

    def key(self, form: str, what: Any, how: Any, numbers: Sequence[Any], parts: Sequence[RowNode]) -> None:
        self.keys.append((form, what, how, tuple(numbers), tuple([self.number(p) for p in parts])))


def one_result(lowered: Lowered, k: int) -> Lowered:
    """The Lowered of one result among several."""
    if len(lowered.outs) == 1:
        return lowered
    return lowered.but(outs=(lowered.outs[k],), body=lambda at, sources: (lowered.body(at, sources)[k],))


def converted(node: RowNode, code: str) -> RowNode:
    """The node in another type."""
    if node.code == code:
        return node
    lowered = Lowered(
        "convert",
        ("convert", code),
        (),
        (),
        (code,),
        (Memory("x", node.code, (), (), ()),),
        lambda at, sources: (sources[0].read(at),),
    )
    return RowNode("points", node.kind, code, [node], lowered)


def row_program(
    nodes: Sequence[Node], shape: Shape, outs: Sequence[Buffer]
) -> tuple[RowProgram, list[Value], tuple[int, ...], Any]:
    """The program, the values that it reads, how far its lines lie from each other, and what raises for a bad index."""
    builder = Builder(shape)
    for node in nodes:
        builder.add(node)
    results = tuple([(builder.nodes[b], b.dtype.code) for b in outs])
    names = tuple([builder.number(node) for node, _ in results])
    kinds = tuple([(o.code, o.kind) for o in builder.operands])
    stored = {v.buffer: v for n in nodes for v in n.results}
    lines = [
        (number, v.line(shape.inner))
        for number, v in enumerate([*builder.inputs, *[stored[b] for b in outs]])
        if not v.is_contiguous
    ]
    numbers = tuple([number for number, _ in lines])
    key = ("unit", tuple(builder.keys), kinds, names, tuple([code for _, code in results]), numbers)
    compute = compute_code(next((o.code for o in builder.operands if o.kind == FULL), "f32"))
    name = "_".join(dict.fromkeys(n.definition.name.strip("_") for n in nodes))[:60]
    return (
        RowProgram(name, key, tuple(builder.operands), results, compute, builder.bound, builder.ignored, numbers),
        builder.inputs,
        tuple([line for _, line in lines]),
        builder.on_error,
    )
