"""Gathers, scatters and slices whose place is a value.

Enters: tensors, and integers that say where. Leaves: indices into the flat elements and one ATen call over them;
`index_select` and plain slices where these do. Starting places of gathers and slices are moved to where the slice fits;
a scatter leaves out windows that do not fit. Refuses dimension numbers that contradict each other.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...fx import Node
from ..syntax import Number, Operation
from ..types import TensorType
from .scattering import scattered
from .shapes import sizes_operand
from .table import (
    INTEGERS,
    body,
    compatible,
    counted,
    distinct,
    of_elements,
    op,
    regions,
    require,
    scalar,
    size_fits,
    tensors,
)
from .writer import Writer, dtype


class Dims:
    """The dimension numbers of a gather or scatter, in the words of the gather."""

    def __init__(self, o: Operation, kind: str, names: Sequence[str]) -> None:
        fields = o.struct(kind, "gather" if kind == "dimension_numbers" else "scatter")
        plain: dict[str, list[int]] = {}
        for key, value in fields.items():
            numbers = value if isinstance(value, list) else [value]
            require(o, all(isinstance(n, Number) and isinstance(n.value, int) for n in numbers),
                    f"{key} must be whole numbers")
            plain[key] = [n.value for n in numbers]
        self.offset, self.collapsed, self.batching, self.indices_batching, self.map = (
            plain.get(n, []) for n in names)
        self.vector = (plain.get("index_vector_dim") or [0])[0]

    def check(self, o: Operation, operand: TensorType, indices: TensorType, window: Sequence[int | None]
              ) -> tuple[list[int | None], list[int | None]]:
        """The sizes of the batch, and of the window as it appears; errors where numbers do not fit."""
        rank = len(operand.shape)
        of_elements(o, [indices], INTEGERS)
        require(o, 0 <= self.vector <= len(indices.shape), f"index_vector_dim {self.vector} is no dimension of"
            f" {indices}")
        distinct(o, [*self.collapsed, *self.batching], rank, "collapsed, inserted and batching dimensions")
        distinct(o, [*self.map, *self.batching], rank, "mapped and batching dimensions")
        distinct(o, self.indices_batching, len(indices.shape), "batching dimensions of the indices")
        counted(o, self.indices_batching, len(self.batching), "batching dimensions of the indices")
        require(o, self.vector not in self.indices_batching, "index_vector_dim is not among the batching dimensions")
        for d, i in zip(self.batching, self.indices_batching, strict=True):
            require(o, size_fits(operand.shape[d], indices.shape[i]),
                    f"batching dimension {d} of {operand} and {i} of {indices} differ")
        width = indices.shape[self.vector] if self.vector < len(indices.shape) else 1
        require(o, size_fits(width, len(self.map)), f"an index has {width} numbers, for {len(self.map)} dimensions")
        for d, n in enumerate(window):
            if d in self.collapsed or d in self.batching:
                require(o, n is None or n <= 1, f"a dimension that is left out has a window of {n}")
            require(o, n is None or operand.shape[d] is None or 0 <= n <= (operand.shape[d] or 0),
                    f"a window of {n} does not fit into {operand}")
        batch = [n for d, n in enumerate(indices.shape) if d != self.vector]
        return batch, [n for d, n in enumerate(window) if d not in self.collapsed and d not in self.batching]


def spread(o: Operation, dims: Dims, batch: Sequence[Any], window: Sequence[Any]) -> list[Any]:
    """Batch and window as the sizes of the result (or the updates)."""
    rank = len(batch) + len(window)
    distinct(o, dims.offset, rank, "dimensions of the window")
    require(o, dims.offset == sorted(dims.offset), f"dimensions of the window must be in order, got {dims.offset}")
    counted(o, dims.offset, len(window), "dimensions of the window")
    sides = iter(batch), iter(window)
    return [next(sides[d in dims.offset]) for d in range(rank)]


def order_of(dims: Dims, rank: int) -> list[int]:
    """The permutation from (batch..., window...) to the result."""
    behind = rank - len(dims.offset)
    batch, window = iter(range(behind)), iter(range(behind, rank))
    return [next(window) if d in dims.offset else next(batch) for d in range(rank)]


def times(w: Writer, a: Any, b: Any) -> Any:
    """A product of sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int) and a == 1:
        return b
    return a if isinstance(b, int) and b == 1 else w.node(operator.mul, a, b)


def minus(w: Writer, a: Any, b: Any) -> Any:
    return a - b if isinstance(a, int) and isinstance(b, int) else w.node(operator.sub, a, b)


class Places:
    """Starting places in a tensor, one for each element of the batch, and flat places of whole windows."""

    def __init__(self, w: Writer, dims: Dims, operand: Node, kind: TensorType, indices: Node, indices_kind: TensorType,
                 window: Sequence[Any]) -> None:
        self.w, self.dims, self.window = w, dims, window
        self.sizes = w.shape(operand, kind)
        rank = len(indices_kind.shape)
        if indices_kind.element != "i64":
            indices = w("_to_copy.default", indices, dtype=dtype("i64"))
        if dims.vector == rank:
            indices = w("unsqueeze.default", indices, rank)
        self.batch_sizes = [w.size(indices, indices_kind, d) for d in range(rank) if d != dims.vector]
        self.starts: dict[int, Node] = {}
        for k, d in enumerate(dims.map):
            self.starts[d] = w("select.int", indices, dims.vector, k)
        for d, place in zip(dims.batching, dims.indices_batching, strict=True):
            behind = len(self.batch_sizes) - 1 - (place - (place > dims.vector))
            line = w.arange(self.sizes[d])
            self.starts[d] = w("view.default", line, [-1, *[1] * behind]) if behind else line

    def clamped(self) -> None:
        """Move starting places to where the window fits."""
        for d in self.dims.map:
            last = minus(self.w, self.sizes[d], self.window[d])
            self.starts[d] = self.w("clamp.default", self.starts[d], 0, last)

    def fitting(self) -> Node | None:
        """For each element of the batch, whether its window fits."""
        found: Node | None = None
        for d in self.dims.map:
            last = minus(self.w, self.sizes[d], self.window[d])
            fits = self.w("logical_and.default", self.w("ge.Scalar", self.starts[d], 0),
                          self.w("le.Scalar", self.starts[d], last))
            found = fits if found is None else self.w("logical_and.default", found, fits)
        return found

    def flat(self) -> Node:
        """Flat places: [batch..., window...], the window without what is left out."""
        w, rank = self.w, len(self.sizes)
        strides: list[Any] = [1] * rank
        for d in reversed(range(rank - 1)):
            strides[d] = times(w, strides[d + 1], self.sizes[d + 1])
        total: Node | None = None
        for d, start in self.starts.items():
            part = start if strides[d] == 1 else w("mul.Scalar", start, strides[d])
            total = part if total is None else w("add.Tensor", total, part)
        shown = [d for d in range(rank) if d not in self.dims.collapsed and d not in self.dims.batching]
        shape = [*self.batch_sizes, *[self.window[d] for d in shown]]
        if total is None:
            total = w.scalar(0, "i64")
        elif shown:
            total = w("expand.default", total, self.batch_sizes) if self.batch_sizes else total
            total = w("view.default", total, [*self.batch_sizes, *[1] * len(shown)])
        for i, d in enumerate(shown):
            if self.window[d] == 1:
                continue
            line = w.arange(self.window[d])
            if strides[d] != 1:
                line = w("mul.Scalar", line, strides[d])
            behind = len(shown) - 1 - i
            total = w("add.Tensor", total, w("view.default", line, [-1, *[1] * behind]) if behind else line)
        return w("expand.default", total, shape) if shape else total


GATHER = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
          "start_index_map")
SCATTER = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
           "scatter_dims_to_operand_dims")


# --- gather -----------------------------------------------------------------------------------------------------------


def _gathered(o: Operation) -> list[TensorType]:
    operand, indices = tensors(o, 2)
    window = o.integers("slice_sizes")
    return [gather_type(o, operand, indices, window)]


def gather_type(o: Operation, operand: TensorType, indices: TensorType, window: Sequence[int | None]) -> TensorType:
    counted(o, window, len(operand.shape), "slice_sizes")
    dims = Dims(o, "dimension_numbers", GATHER)
    return TensorType(tuple(spread(o, dims, *dims.check(o, operand, indices, window))), operand.element)


@op("gather", _gathered)
def gather(w: Writer, o: Operation, operand: Node, indices: Node) -> Node:
    return gathered(w, o, operand, indices, o.integers("slice_sizes"))


def gathered(w: Writer, o: Operation, operand: Node, indices: Node, window: Sequence[Any]) -> Node:
    dims, (kind, indices_kind) = Dims(o, "dimension_numbers", GATHER), o.types[:2]
    places = Places(w, dims, operand, kind, indices, indices_kind, window)
    empty = 0 in [n for n in window if isinstance(n, int)] or 0 in kind.shape
    if not empty:
        places.clamped()
    rank = len(o.type.shape)
    order = order_of(dims, rank)
    whole = [d for d in range(len(kind.shape)) if isinstance(window[d], int) and window[d] == kind.shape[d]]
    if len(dims.map) == 1 and dims.collapsed == dims.map and not dims.batching and {*whole, *dims.map} == set(
            range(len(kind.shape))):
        d = dims.map[0]      # rows of a table
        rows = operand if d == 0 else w("movedim.int", operand, d, 0)
        found = w("index.Tensor", rows, [places.starts[d]])
    else:
        found = w("index.Tensor", w("reshape.default", operand, [-1]), [places.flat()])
    return found if order == list(range(rank)) else w("permute.default", found, order)


def _dynamic_gathered(o: Operation) -> list[TensorType]:
    operand, indices, _ = tensors(o, 3)
    sizes_operand(o, 2, len(operand.shape))
    return [gather_type(o, operand, indices, [None] * len(operand.shape))]


@op("dynamic_gather", _dynamic_gathered)
def dynamic_gather(w: Writer, o: Operation, operand: Node, indices: Node, window: Node) -> Node:
    return gathered(w, o, operand, indices, w.elements(window, o.types[2]))


def _selected_rows(o: Operation) -> list[TensorType]:
    operand, index = tensors(o, 2)
    dim, batch = o.integer("dim"), o.integer("batch_dims")
    of_elements(o, [index], INTEGERS)
    distinct(o, [dim], len(operand.shape), "dim")
    require(o, 0 <= batch <= min(dim, len(index.shape)), f"batch_dims {batch} is more than dim {dim} or the index has")
    return [TensorType((*operand.shape[:dim], *index.shape[batch:], *operand.shape[dim + 1:]), operand.element)]


@op("torch_index_select", _selected_rows)
def torch_index_select(w: Writer, o: Operation, operand: Node, index: Node) -> Node:
    dim, batch = o.integer("dim"), o.integer("batch_dims")
    if batch:
        raise o.refusal("batch_dims other than 0 are not supported")
    if o.types[1].element != "i64":
        index = w("_to_copy.default", index, dtype=dtype("i64"))
    return w("index.Tensor", operand, [*[None] * dim, index])


# --- scatter ----------------------------------------------------------------------------------------------------------


def _scatter_parts(o: Operation) -> tuple[int, Dims, list[int | None]]:
    """How many tensors, the dimension numbers in the words of the gather, and the window over the operand."""
    types = tensors(o, 3, 1 << 30)
    require(o, len(types) % 2 == 1, "expected as many updates as tensors, and indices")
    count = len(types) // 2
    operand, updates = types[0], types[count + 1]
    dims = Dims(o, "scatter_dimension_numbers", SCATTER)
    distinct(o, dims.offset, len(updates.shape), "update_window_dims")
    distinct(o, [*dims.collapsed, *dims.batching], len(operand.shape), "inserted_window_dims and input_batching_dims")
    sizes = iter([updates.shape[d] for d in dims.offset])
    left_out = {*dims.collapsed, *dims.batching}
    counted(o, dims.offset, len(operand.shape) - len(left_out), "update_window_dims")
    return count, dims, [1 if d in left_out else next(sizes) for d in range(len(operand.shape))]


def _scattered(o: Operation) -> list[TensorType]:
    count, dims, window = _scatter_parts(o)
    operands, updates = o.types[:count], o.types[count + 1:]
    expected = spread(o, dims, *dims.check(o, operands[0], o.types[count], window))
    for operand, update in zip(operands, updates, strict=True):
        require(o, compatible(TensorType(operand.shape, operands[0].element), operands[0]), "tensors have one shape")
        require(o, compatible(update, TensorType(tuple(expected), operand.element)),
                f"updates must be {TensorType(tuple(expected), operand.element)}, got {update}")
    regions(o, 1)
    scalars = [TensorType((), t.element) for t in operands]
    body(o, 0, [*scalars, *scalars], scalars)
    return operands


@op("scatter", _scattered)
def scatter(w: Writer, o: Operation, *given: Node) -> list[Node]:
    count, dims, _ = _scatter_parts(o)
    operands, indices, updates = given[:count], given[count], given[count + 1:]
    kinds, update_kind = o.types[:count], o.types[count + 1]
    if 0 in update_kind.shape or 0 in kinds[0].shape:
        return list(operands)
    sizes = w.shape(updates[0], update_kind)
    shown = iter([sizes[d] for d in dims.offset])
    left_out = {*dims.collapsed, *dims.batching}
    window = [1 if d in left_out else next(shown) for d in range(len(kinds[0].shape))]
    places = Places(w, dims, operands[0], kinds[0], indices, o.types[count], window)
    total: Any = 1
    for n in places.sizes:
        total = times(w, total, n)
    inner = [n for d, n in enumerate(window) if d not in left_out]
    flat = w("reshape.default", places.flat(), shape2(w, places.batch_sizes, inner))
    fits = places.fitting()
    if fits is not None:
        fits = w("reshape.default", w("expand.default", fits, places.batch_sizes), [-1, 1]) if places.batch_sizes else (
            w("view.default", fits, [1, 1]))
        nowhere = w("full.default", [], total, dtype=dtype("i64"), device=w.device)
        flat = w("where.self", fits, flat, nowhere)
    rank = len(sizes)
    order = order_of(dims, rank)
    inverse = sorted(range(rank), key=lambda i: order[i])
    rows = []
    for update in updates:
        moved = update if inverse == list(range(rank)) else w("permute.default", update, inverse)
        rows.append(w("reshape.default", moved, shape2(w, places.batch_sizes, inner)))
    bases = [w("reshape.default", x, [-1]) for x in operands]
    result = scattered(w, bases, [total] * count, flat, rows, o.blocks[0], [t.element for t in kinds],
                       o.truth("unique_indices", False))
    return [w("reshape.default", x, places.sizes) for x in result]


def shape2(w: Writer, batch: Sequence[Any], inner: Sequence[Any]) -> list[Any]:
    """[batch, window] as two sizes."""
    found = []
    for part in (batch, inner):
        total: Any = 1
        for n in part:
            total = times(w, total, n)
        found.append(total)
    return found


# --- slices whose place is a value ------------------------------------------------------------------------------------


def _starts(o: Operation, first: int, rank: int) -> None:
    counted(o, o.types[first:], rank, "starting places")
    for t in o.types[first:]:
        require(o, scalar(o, t, "a starting place").element in INTEGERS, f"a starting place is an integer, got {t}")


def _dynamic_sliced(o: Operation) -> list[TensorType]:
    kind = tensors(o, 1, 1 << 30)[0]
    window = o.integers("slice_sizes")
    counted(o, window, len(kind.shape), "slice_sizes")
    _starts(o, 1, len(kind.shape))
    for n, size in zip(window, kind.shape, strict=True):
        require(o, 0 <= n and (size is None or n <= size), f"a slice of {n} does not fit into {kind}")
    return [TensorType(tuple(window), kind.element)]


def start_of(w: Writer, start: Node, kind: TensorType, last: Any) -> Any:
    """A starting place moved to where the slice fits: a number where the text has it, a tensor [1] otherwise."""
    value = w.literals.get(start)
    if isinstance(value, int) and isinstance(last, int):
        return max(0, min(value, last))
    if kind.element != "i64":
        start = w("_to_copy.default", start, dtype=dtype("i64"))
    return w("view.default", w("clamp.default", start, 0, last), [1])


@op("dynamic_slice", _dynamic_sliced)
def dynamic_slice(w: Writer, o: Operation, x: Node, *starts: Node) -> Node:
    kind = o.types[0]
    for d, (start, n) in enumerate(zip(starts, o.integers("slice_sizes"), strict=True)):
        if n == kind.shape[d]:
            continue
        begin = start_of(w, start, o.types[d + 1], minus(w, w.size(x, kind, d), n))
        if isinstance(begin, int):
            x = w("slice.Tensor", x, d, begin, begin + n)
        else:
            x = w("index_select.default", x, d, begin if n == 1 else w("add.Tensor", begin, w.arange(n)))
    return x


def _dynamic_updated(o: Operation) -> list[TensorType]:
    kind, update = tensors(o, 2, 1 << 30)[:2]
    fits = update.element == kind.element and len(update.shape) == len(kind.shape) and all(
        a is None or b is None or a <= b for a, b in zip(update.shape, kind.shape, strict=True))
    require(o, fits, f"an update {update} does not fit into {kind}")
    _starts(o, 2, len(kind.shape))
    return [kind]


@op("dynamic_update_slice", _dynamic_updated)
def dynamic_update_slice(w: Writer, o: Operation, x: Node, update: Node, *starts: Node) -> Node:
    kind, update_kind = o.types[:2]
    rank = len(kind.shape)
    if rank == 0:
        return update
    if 0 in update_kind.shape:
        return x
    if update_kind.shape == kind.shape and None not in kind.shape:
        return update
    sizes, total = w.shape(update, update_kind), w.shape(x, kind)
    begins = [start_of(w, s, t, minus(w, n, m)) for s, t, n, m in zip(starts, o.types[2:], total, sizes, strict=True)]
    if all(isinstance(b, int) for b in begins) and all(isinstance(n, int) for n in sizes):
        return written(w, x, update, begins, sizes, total)
    indices = []
    for d, (begin, n) in enumerate(zip(begins, sizes, strict=True)):
        line = w.arange(n)
        line = w("add.Scalar" if isinstance(begin, int) else "add.Tensor", line, begin)
        indices.append(w("view.default", line, [-1, *[1] * (rank - 1 - d)]))
    return w("index_put.default", x, indices, update)


def written(w: Writer, x: Node, update: Node, begins: Sequence[int], sizes: Sequence[int],
        total: Sequence[Any]) -> Node:
    """An update at places that the text has: slices of slices, put back from the innermost."""
    cut = [d for d in range(len(sizes)) if sizes[d] != total[d]]
    outer = [x]
    for d in cut[:-1]:
        outer.append(w("slice.Tensor", outer[-1], d, begins[d], begins[d] + sizes[d]))
    for d in reversed(cut):
        update = w("slice_scatter.default", outer.pop(), update, d, begins[d], begins[d] + sizes[d])
    return update
