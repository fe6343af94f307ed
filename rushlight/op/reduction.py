"""Reductions: an initial state, a step, a merge and a finish; dims, dtypes, chunking and kernels follow from them.

Enters: a definition with `init`, `step`, `merge` and `finish` over a tuple of accumulators (a `Fold`). Leaves: plans
of one kernel, or of two where one output needs many elements: partial results of chunks whose size depends on the
shape alone, then their merge, so results never depend on the number of threads. Refuses: dims out of range or
repeated, empty reductions of folds without an identity, and dtypes the op cannot take.

Two loop forms, of any rank: *rows* fold along the contiguous dim, one output at a time, in vectors; *columns* keep
the contiguous dim and fold many outputs at a time, one per lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..loops.expr import Value, cast, const, idiv, irem, load, min_, var
from ..loops.nest import Assign, For, Local, Nest, Statement, Store, operands, reduction, rows
from ..loops.record import Record
from ..promotion import rank
from ..shape import surely
from .definition import KIND_PLANNED, OpDefinition
from .pointwise import compile_for, compute_code, scalars
from .results import result_type
from .view import wrap_dim, wrap_dims

GRAIN = 32768            # elements a chunk of parallel work should touch
ROW_CHUNK = 65536        # elements of one partial result along a contiguous dim
STRIDED_CHUNK = 2048     # the same where elements are folded one by one: bounds the rounding error of sums
WIDE_COLUMNS = 4096      # columns folded together: the generator keeps their accumulators in cache
COLUMN_CHUNK = 256       # rows of one partial result when lanes are columns
ZERO = const(0, "i64")
Accumulators = Sequence[Value]


class Fold:
    """How elements become a result. `merge(a, b)` must commute; `init` must be neutral in it."""

    uses_index: ClassVar[bool] = False   # step and merge see positions along the reduced dims
    blocked: ClassVar[bool] = False      # long float folds go in blocks, for accuracy
    has_identity: ClassVar[bool] = True

    def init(self, s: Any, code: str) -> Accumulators:
        """Accumulators before the first element; `code` is the compute type."""
        raise NotImplementedError

    def step(self, s: Any, acc: Accumulators, x: Value, index: Value | None) -> Accumulators:
        """Accumulators after one more element. By default the element is merged in."""
        return self.merge(s, acc, (x,) if index is None else (x, index))

    def merge(self, s: Any, a: Accumulators, b: Accumulators) -> Accumulators:
        """Two partial results as one."""
        raise NotImplementedError

    def finish(self, s: Any, acc: Accumulators, count: Value) -> Value | tuple[Value, ...]:
        """The outputs, from the accumulators and how many elements they saw."""
        return acc[0]


class TwoPass(Fold):
    """A fold that reads each run of elements twice, which is cheap while they are in cache.

    `first` folds the run; `middle` turns its accumulators into values that `second_step` may use; `join` makes this
    fold's accumulators of both. `step` is not needed.
    """

    first: Fold

    def middle(self, s: Any, acc: Accumulators, length: Value) -> Accumulators:
        """Values the second pass knows."""
        raise NotImplementedError

    def second_init(self, s: Any, code: str) -> Accumulators:
        """Accumulators of the second pass; they are added up."""
        raise NotImplementedError

    def second_step(self, s: Any, acc: Accumulators, x: Value, known: Accumulators) -> Accumulators:
        """Second-pass accumulators after one more element."""
        raise NotImplementedError

    def join(self, s: Any, known: Accumulators, second: Accumulators, length: Value) -> Accumulators:
        """This fold's accumulators for the run."""
        raise NotImplementedError


class Types(Record):
    """Dtypes of one call: elements are cast to `read`, computed in `compute`, stored as `outs`."""

    read: str
    compute: str
    outs: tuple[Any, ...]


class Axis(Record):
    """One loop: its size, its stride in the input, and its stride in the output (kept) or the position (reduced)."""

    size: int
    stride: int
    other: int


class Reduction(Fold, OpDefinition):
    """A definition that folds dims away. Parameters called dim, keepdim and dtype mean what they always mean."""

    kind = KIND_PLANNED
    is_rows: ClassVar[bool] = False                # made by batching: each row of a matrix is folded
    reduce_none_if_empty: ClassVar[bool] = False   # dim=() reduces nothing, instead of everything
    refuse: ClassVar[tuple[str, ...]] = ()         # of "bool", "int", "float", "complex"

    def fold(self, *args: Any) -> Fold:
        """The fold of this call; it must hash, and equal folds share kernels."""
        return self

    def types(self, input: Any, dtype: Any, *args: Any) -> Types:
        """The dtypes of this call; by default the input's throughout."""
        return Types(input.dtype.code, compute_code(input.dtype.code), (dtype or input.dtype,))

    def check(self, input: Any, *args: Any) -> None:
        """Raise for arguments the op refuses."""
        if (label := ("bool", "int", "float", "complex")[rank(input.dtype)]) in self.refuse:
            raise NotImplementedError(f'"{self.name}" not implemented for {label if label == "bool" else input.dtype.name} tensors')

    # Planning ---------------------------------------------------------------------------------------------------------

    @cached_property
    def positions(self) -> tuple[int | None, int | None, int | None]:
        names = [p.name for p in self.spec.params]
        return tuple(names.index(n) if n in names else None for n in ("dim", "keepdim", "dtype"))

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def plan(self, args: tuple) -> Any:
        t = args[0]
        at_dim, at_keepdim, at_dtype = self.positions
        self.check(*args)
        dims = self.reduced_dims(t, None if at_dim is None else args[at_dim])
        keepdim = at_keepdim is not None and args[at_keepdim]
        fold = self.fold(*args)
        types = self.types(t, None if at_dtype is None else args[at_dtype], *args[1:])
        sizes = t.shape
        if not fold.has_identity:
            self.check_not_empty(sizes, dims, at_dim is None or args[at_dim] in (None, (), []))
        shape = tuple([1 if d in dims else n for d, n in enumerate(sizes) if keepdim or d not in dims])
        slots = [("new", d, shape, None, 0, 0) for d in types.outs]
        wrap = None
        if len(slots) > 1:
            wrap = result_type(self.spec.name, self.spec.return_names) if self.spec.return_names else None
        steps = [] if t.device.type == "meta" else self.steps(t, dims, fold, types, slots)
        return _C.Plan(1, t.device, slots, steps, len(types.outs) == 1, wrap)

    def reduced_dims(self, t: Any, dim: Any) -> frozenset[int]:
        if dim is None:
            return frozenset(range(t.ndim))
        if isinstance(dim, int):
            return frozenset((wrap_dim(self.name, dim, t.ndim),))
        if not dim and not self.reduce_none_if_empty:
            return frozenset(range(t.ndim))
        return frozenset(wrap_dims(self.name, dim, t.ndim))

    def check_not_empty(self, sizes: Sequence[int], dims: frozenset[int], is_full: bool) -> None:
        if not any(surely(n == 0) for n in sizes):
            return
        if is_full:
            raise RuntimeError(
                f"{self.name}: the reduction of no elements (input.numel() == 0) has no value. "
                "Name a dim that has some."
            )
        for d in dims:
            if d < len(sizes) and sizes[d] == 0:
                raise IndexError(f"{self.name}(): Expected reduction dim {d} to have non-zero size.")

    def steps(self, t: Any, dims: frozenset[int], fold: Fold, types: Types, slots: list) -> list:
        """Kernel calls; partial results of chunks, if any, get slots of their own."""
        kept, folded = split_axes(t.shape, t.stride(), dims)
        count = product(a.size for a in folded)
        outputs = product(a.size for a in kept)
        if outputs == 0:
            return []
        lane = lane_axis(kept, folded)
        per_chunk = chunk_length(fold, types.compute, kept, folded, lane)
        chunks = -(-folded[0].size // per_chunk) if per_chunk else 1
        shape = Shape(len(kept), len(folded), lane is not None, lane is not None and lane.other == 1, chunks > 1)
        key = (fold, types.read, types.compute, t.dtype.code, tuple([d.code for d in types.outs]), shape, t.device.type)
        found = self.kernels.get(key)
        if found is None:
            found = self.kernels[key] = self.compile(fold, types, t, shape)
        first, merge, codes = found
        params, extent, grain = launch(kept, folded, lane, shape, per_chunk, chunks, count, outputs, fold.uses_index)
        if chunks == 1:
            outs = range(1, 1 + len(types.outs))
            return [(first, [0, *outs], params, extent, grain, -1)]
        partial = range(1 + len(slots), 1 + len(slots) + len(codes))
        outs = range(1, 1 + len(types.outs))
        slots.extend([("temp", d, (chunks * outputs,), None, 0, 0) for d in codes])
        return [
            (first, [0, *partial], params, extent, grain, -1),
            (merge, [*partial, *outs], [outputs, chunks, count], outputs, max(1, GRAIN // chunks), -1),
        ]

    def compile(self, fold: Fold, types: Types, t: Any, shape: Shape) -> tuple[Any, Any, list]:
        """(first kernel, merging kernel or None, dtypes of partial results)."""
        codes = [v.dtype for v in fold.init(scalars, types.compute)]
        outs = codes if shape.chunked else [d.code for d in types.outs]
        body = KernelBody(fold, types, t.dtype.code, outs, shape)
        made = [body.columns(self.spec.name) if shape.lanes else body.rows(self.spec.name)]
        if shape.chunked:
            made.append(merge_nest(self.spec.name, fold, types.compute, codes, [d.code for d in types.outs]))
        kernels = [as_step(compile_for(t.device, nest)) for nest in made]
        return kernels[0], kernels[1] if shape.chunked else None, [BY_CODE[c] for c in codes]


BY_CODE = {d.code: d for d in vars(_C).values() if isinstance(d, _C.dtype)}


def as_step(kernel: Any) -> Any:
    """What a plan's step holds: an address, or a device's handle marked as one."""
    return kernel if isinstance(kernel, int) else ("handle", kernel)


# --- geometry -----------------------------------------------------------------------------------------------------------


def product(numbers: Any) -> int:
    """Product of integers."""
    result = 1
    for n in numbers:
        result *= n
    return result


def split_axes(sizes: Sequence[int], strides: Sequence[int], dims: frozenset[int]) -> tuple[list[Axis], list[Axis]]:
    """Kept loops in output order, and reduced loops from the largest stride to the smallest; at least one of these."""
    kept, folded = [], []
    other_kept = other_folded = 1
    for d in range(len(sizes) - 1, -1, -1):
        if d in dims:
            folded.append(Axis(sizes[d], strides[d], other_folded))
            other_folded *= sizes[d]
        else:
            kept.append(Axis(sizes[d], strides[d], other_kept))
            other_kept *= sizes[d]
    if other_folded == 0:
        folded = [Axis(0, 1, 1)]
    folded = [a for a in folded if a.size != 1]
    if len(folded) > 1:
        folded.sort(key=lambda a: a.stride)
    return coalesce([a for a in kept if a.size != 1]), coalesce(folded) or [Axis(1, 1, 1)]


def coalesce(axes: list[Axis]) -> list[Axis]:
    """Neighbours that are one loop joined; given innermost first, returned outermost first."""
    joined: list[Axis] = []
    for a in axes:
        if joined:
            inner = joined[-1]
            if a.stride == inner.size * inner.stride and a.other == inner.size * inner.other:
                joined[-1] = Axis(a.size * inner.size, inner.stride, inner.other)
                continue
        joined.append(a)
    joined.reverse()
    return joined


def lane_axis(kept: list[Axis], folded: list[Axis]) -> Axis | None:
    """The kept dim to put on lanes, if the contiguous dim is kept."""
    if folded[-1].stride == 1 and folded[-1].size > 1:
        return None
    return next((a for a in kept if a.stride == 1 and a.size >= 4), None)


class Shape(Record):
    """What a kernel's code depends on besides types."""

    kept: int
    folded: int
    lanes: bool         # columns form
    dense: bool         # columns form: neighbouring lanes are neighbours in the output
    chunked: bool


def chunk_length(fold: Fold, compute: str, kept: list[Axis], folded: list[Axis], lane: Axis | None) -> int:
    """Steps of the outermost reduced loop per partial result; 0: the whole of it at once."""
    count = product(a.size for a in folded)
    outputs = product(a.size for a in kept)
    inner = max(1, count // max(1, folded[0].size))
    rounds = fold.blocked and compute[0] in "fc"
    scarce = count * outputs > 8 * GRAIN
    if lane is not None:
        needed = count > 2 * COLUMN_CHUNK and (rounds or scarce)
        length = COLUMN_CHUNK if count * lane.size <= 64 * ROW_CHUNK or outputs < 8 * 64 else 2 * COLUMN_CHUNK
    elif folded[-1].stride == 1:
        needed = scarce and outputs < 8
        length = ROW_CHUNK
    else:
        needed = (rounds and count > 2 * STRIDED_CHUNK) or (scarce and outputs < 8)
        length = STRIDED_CHUNK if rounds else ROW_CHUNK
    length = max(1, length // inner)
    return length if needed and length < folded[0].size else 0


def launch(kept: list[Axis], folded: list[Axis], lane: Axis | None, shape: Shape, per_chunk: int, chunks: int, count: int, outputs: int, uses_index: bool) -> tuple[list[int], int, int]:
    """Run-time parameters, extent and grain of the first kernel."""
    others = kept if lane is None else [a for a in kept if a is not lane]
    params = [a.size for a in others] + [a.stride for a in others]
    params += [a.size for a in folded] + [a.stride for a in folded]
    if uses_index:
        params += [a.other for a in folded]
    params.append(count)
    work = count if not per_chunk else per_chunk * (count // folded[0].size)
    extent = chunks
    if lane is None:
        extent *= outputs
    else:
        # Whole rows stream from memory; pieces of them do not. Chunks of rows are the parallel work, if there are any.
        least = WIDE_COLUMNS if chunks > 1 or lane.size > 4 * WIDE_COLUMNS else WIDE_COLUMNS // 4
        width = max(least, GRAIN // max(1, work) // 64 * 64)
        blocks = -(-lane.size // width)
        params += [a.other for a in others] + [lane.size, lane.other, width, blocks]
        extent *= blocks * (outputs // lane.size)
        work *= min(width, lane.size)
    if shape.chunked:
        params += [per_chunk, chunks, outputs]
    return params, extent, max(1, GRAIN // max(1, work))


# --- kernels ------------------------------------------------------------------------------------------------------------


class KernelBody:
    """Writes the nests of one fold for one combination of types and shape."""

    def __init__(self, fold: Fold, types: Types, code: str, outs: list[str], shape: Shape) -> None:
        self.fold, self.types, self.code, self.outs, self.shape = fold, types, code, outs, shape
        self.init = list(fold.init(scalars, types.compute))
        others = shape.kept - shape.lanes
        self.kept_sizes, self.kept_strides = names("k", others), names("ks", others)
        self.sizes, self.strides = names("r", shape.folded), names("rs", shape.folded)
        self.index_strides = names("ri", shape.folded) if fold.uses_index else []
        self.params = [*self.kept_sizes, *self.kept_strides, *self.sizes, *self.strides, *self.index_strides, "count"]

    def chunk_bounds(self, chunk: Value) -> tuple[Value, Value]:
        start = chunk * var("per_chunk")
        return start, min_(start + var("per_chunk"), var(self.sizes[0]))

    def locate(self, item: Value, strides: Sequence[str]) -> Value:
        """Offset of the kept dims' position number `item`."""
        offset, rest = ZERO, item
        for k in range(len(self.kept_sizes) - 1, -1, -1):
            at = rest if k == 0 else irem(rest, var(self.kept_sizes[k]))
            offset = offset + at * var(strides[k])
            rest = idiv(rest, var(self.kept_sizes[k])) if k else rest
        return offset

    def rows(self, name: str) -> Nest:
        """One output per iteration, elements folded in vectors."""
        item, chunk, bounds = var("i"), None, (ZERO, var(self.sizes[0]))
        if self.shape.chunked:
            self.params += ["per_chunk", "chunks", "outputs"]
            item, chunk = idiv(item, var("chunks")), irem(item, var("chunks"))
            bounds = self.chunk_bounds(chunk)
        body = [Local("base", self.locate(item, self.kept_strides))]
        fold, accs = self.loops(0, var("base"), bounds)
        at = item if chunk is None else chunk * var("outputs") + item
        return Nest(f"{name}_rows", operands([self.code], self.outs), tuple(self.params), rows(*body, *fold, *self.stores(accs, at)))

    def columns(self, name: str) -> Nest:
        """Many outputs per iteration: each lane folds one column."""
        kept_out = names("ko", len(self.kept_sizes))
        self.params += [*kept_out, "lanes", "lane_out", "width", "blocks"]
        item, chunk, bounds = var("i"), None, (ZERO, var(self.sizes[0]))
        block, item = irem(item, var("blocks")), idiv(item, var("blocks"))
        if self.shape.chunked:
            self.params += ["per_chunk", "chunks", "outputs"]
            chunk, item = irem(item, var("chunks")), idiv(item, var("chunks"))
            bounds = self.chunk_bounds(chunk)
        out = self.locate(item, kept_out)
        out = out if chunk is None else out + chunk * var("outputs")
        head = [Local("base", self.locate(item, self.kept_strides)), Local("out", out), Local("first", block * var("width"))]
        fold, accs = self.loops(0, var("base") + var("v"), bounds)
        at = var("out") + (var("v") if self.shape.dense else var("v") * var("lane_out"))
        last = min_(var("first") + var("width"), var("lanes"))
        inner = For("v", var("first"), last, (*fold, *self.stores(accs, at)), vector=True)
        return Nest(f"{name}_columns", operands([self.code], self.outs), tuple(self.params), rows(*head, inner))

    def loops(self, depth: int, offset: Value, bounds: tuple[Value, Value], index: Value = ZERO) -> tuple[list[Statement], list[Value]]:
        """Statements that fold reduced dims `depth` and deeper, and the accumulators they leave."""
        at = var(f"j{depth}")
        offset = offset + at * var(self.strides[depth])
        if self.index_strides:   # one reduced loop counts its positions itself
            index = at if self.shape.folded == 1 else index + at * var(self.index_strides[depth])
        accs = names(f"acc{depth}.", len(self.init))
        if depth == self.shape.folded - 1 and isinstance(self.fold, TwoPass):
            return self.two_passes(at, offset, bounds)
        if depth == self.shape.folded - 1:
            element = cast(cast(load(0, offset, self.code), self.types.read), self.types.compute)
            seen = index if self.fold.uses_index else None
            made = reduction(
                at.attr, *bounds, accs, self.init,
                step=lambda acc: self.fold.step(scalars, acc, element, seen),
                merge=lambda a, b: self.fold.merge(scalars, a, b),
                blocked=self.fold.blocked and self.types.compute[0] in "fc",
            )  # fmt: skip
            return [made], [var(a, v.dtype) for a, v in zip(accs, self.init, strict=True)]
        inside, parts = self.loops(depth + 1, offset, (ZERO, var(self.sizes[depth + 1])), index)
        now = [var(a, v.dtype) for a, v in zip(accs, self.init, strict=True)]
        merged = self.fold.merge(scalars, now, parts)
        together = [Local(f"next{depth}.{k}", v) for k, v in enumerate(merged)]
        moved = [Assign(a, var(f"next{depth}.{k}", v.dtype)) for k, (a, v) in enumerate(zip(accs, self.init, strict=True))]
        declared = [Local(a, v) for a, v in zip(accs, self.init, strict=True)]
        return [*declared, For(at.attr, *bounds, (*inside, *together, *moved))], now

    def two_passes(self, at: Value, offset: Value, bounds: tuple[Value, Value]) -> tuple[list[Statement], list[Value]]:
        fold, code = self.fold, self.types.compute
        element = cast(cast(load(0, offset, self.code), self.types.read), code)
        length = bounds[1] - bounds[0]
        init = list(fold.first.init(scalars, code))
        start = reduction(
            at.attr, *bounds, names("run", len(init)), init, step=lambda acc: fold.first.step(scalars, acc, element, None),
            merge=lambda a, b: fold.first.merge(scalars, a, b), blocked=True,
        )  # fmt: skip
        middle = fold.middle(scalars, [var(f"run{k}", v.dtype) for k, v in enumerate(init)], length)
        known = [var(f"known{k}", v.dtype) for k, v in enumerate(middle)]
        init = list(fold.second_init(scalars, code))
        again = reduction(
            at.attr, *bounds, names("again", len(init)), init, step=lambda acc: fold.second_step(scalars, acc, element, known),
            merge=lambda a, b: [x + y for x, y in zip(a, b, strict=True)], blocked=True,
        )  # fmt: skip
        joined = fold.join(scalars, known, [var(f"again{k}", v.dtype) for k, v in enumerate(init)], length)
        body = [start, *[Local(f"known{k}", v) for k, v in enumerate(middle)], again]
        return [*body, *[Local(f"joined{k}", v) for k, v in enumerate(joined)]], [var(f"joined{k}", v.dtype) for k, v in enumerate(joined)]

    def stores(self, accs: list[Value], at: Value) -> list[Statement]:
        values = accs if self.shape.chunked else finished(self.fold, accs)
        return [Store(1 + k, at, cast(v, code)) for k, (v, code) in enumerate(zip(values, self.outs, strict=True))]


def finished(fold: Fold, accs: list[Value]) -> tuple[Value, ...]:
    """The fold's outputs, always as a tuple."""
    made = fold.finish(scalars, accs, var("count"))
    return made if isinstance(made, tuple) else (made,)


def names(prefix: str, count: int) -> list[str]:
    """`count` numbered names."""
    return [f"{prefix}{k}" for k in range(count)]


def merge_nest(name: str, fold: Fold, compute: str, codes: list[str], outs: list[str]) -> Nest:
    """Partial results, laid out [chunk, output], to outputs."""
    at = var("c") * var("outputs") + var("i")
    parts = [load(k, at, code) for k, code in enumerate(codes)]
    accs = names("acc", len(codes))
    merge: Callable = lambda a, b: fold.merge(scalars, a, b)  # noqa: E731
    joined = reduction("c", ZERO, var("chunks"), accs, list(fold.init(scalars, compute)), step=lambda acc: merge(acc, parts), merge=merge)
    values = finished(fold, [var(a, code) for a, code in zip(accs, codes, strict=True)])
    stores = [Store(len(codes) + k, var("i"), cast(v, code)) for k, (v, code) in enumerate(zip(values, outs, strict=True))]
    return Nest(f"{name}_merge", operands(codes, outs), ("outputs", "chunks", "count"), rows(joined, *stores, vector=True))
