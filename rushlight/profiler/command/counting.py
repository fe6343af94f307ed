"""What loops cost: floating-point operations and bytes of a `Lowered` and of a row program.

Enters: what an op computes, as its definition lowers it for the sizes of one call. Leaves: a `Work`. The body is
traced as the schedulers trace it and its nodes are counted; nothing is compiled or run.

    flops    every floating-point addition, multiplication, division, root, extreme and rounding of the expression,
             named functions expanded into what the kernel really computes; a fused multiply-add is two. Comparisons,
             choices, conversions, integers and places in memory are none.
    bytes    every element that is read, once however often, and every element that is written.

Refuses: nothing; an expression it cannot trace has no count, which is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

from ...loops.expr import BITS, FLOATS, Value, cast, var
from ...loops.lowered import (
    ZERO,
    At,
    Elements,
    Given,
    Lowered,
    Memory,
    Number,
    Staged,
    Table,
    TwoPass,
    folding_of,
    number_value,
)
from ...loops.math import expand
from ...loops.row_program import COLUMN, FULL, ROW, RowNode, RowProgram, reachable
from ...loops.vocabulary import Scalars

scalars = Scalars()
COUNTED = frozenset(
    ("add", "sub", "mul", "div", "neg", "abs", "min", "max", "sqrt", "floor", "ceil", "trunc", "rint", "copysign")
)


class Work(NamedTuple):
    """What a call costs; None stands for what nobody has counted."""

    flops: int | None
    bytes: int | None

    def __add__(self, other: object) -> Work:
        assert isinstance(other, Work), f"work is added to work, got {other!r}"
        return Work(joined(self.flops, other.flops), joined(self.bytes, other.bytes))


def joined(a: int | None, b: int | None) -> int | None:
    """The sum of two counts; of an unknown one nothing is known."""
    return None if a is None or b is None else a + b


# --- expressions ------------------------------------------------------------------------------------------------------


def flops_of(values: Iterable[Value]) -> int:
    """Floating-point operations of one evaluation; what two of the values share is computed once."""
    total, seen, stack = 0, set(), list(expand.lower(list(values)))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.dtype in FLOATS:
            total += 2 if node.op == "fma" else node.op in COUNTED
        rare = node.op == "select" and node.attr == "rare"      # its first choice is branched around
        stack.extend((node.args[0], node.args[2]) if rare else node.args)
    return total


# --- loops ------------------------------------------------------------------------------------------------------------


def work_of_lowered(lowered: Lowered) -> Work:
    """The cost of an op's loops."""
    positions = prod(lowered.ranges)
    sources, staged = sources_of(lowered)
    at = At(var(f"i{d}") for d in range(len(lowered.ranges)))
    at.checks = []
    if lowered.scatter is not None:
        here = scattered(lowered, at, sources, positions)
    else:
        element = [v for v in lowered.body(at, sources) or () if v is not None] if lowered.body is not None else []
        flops = flops_of(element) * positions
        if lowered.folding is not None:
            flops += folded_flops(lowered, at, sources, positions, [v.dtype for v in element[1:]])
        if lowered.walk is not None and element:
            walk = lowered.walk
            state = [var(f"acc{k}", v.dtype) for k, v in enumerate(walk.init())]
            after = walk.step(state, cast(element[0], walk.compute), var("index"))
            flops += flops_of([*after, *walk.emit(after)]) * positions - flops_of(element[:1]) * positions
        here = Work(flops, loaded(lowered, positions) + stored(lowered))
    for producer in staged:
        inner = work_of_lowered(producer)
        here += Work(inner.flops, inner.bytes if inner.bytes is None else inner.bytes - stored(producer))
    return here


def sources_of(lowered: Lowered) -> tuple[list[Any], list[Lowered]]:
    """What the body reads from, and the ops whose rows are computed where it reads them."""
    sources: list[Any] = []
    staged: list[Lowered] = []
    for k, r in enumerate(lowered.reads):
        if isinstance(r, Number):
            sources.append(Given(cast(number_value(r.name, r.value), r.code)))
            continue
        sources.append(Elements(k, r.name, r.code, r.classes(), r.dims))
        if isinstance(r, Staged):
            staged.append(r.producer)
            sources[-1].all = lambda at, k=k, outs=r.producer.outs: tuple(
                [var(f"row{k}.{n}", code) for n, code in enumerate(outs)]
            )
    return sources, staged


def folded_flops(lowered: Lowered, at: At, sources: Sequence[Any], positions: int, indices: Sequence[str]) -> int:
    """Folding every element in, and what becomes of the sums. `indices` is the type of the index that a body gives."""
    folding = folding_of(lowered)
    fold, compute = folding.fold, folding.compute
    x, index = var("element", compute), None
    if fold.uses_index or indices:
        index = var("index", indices[0] if indices else "i64")
    results = prod([n for d, n in enumerate(lowered.ranges) if d not in folding.reduced])
    here = At(ZERO if d in folding.reduced else i for d, i in enumerate(at))
    here.checks = at.checks
    joining = 0
    if isinstance(fold, TwoPass):
        first = accumulators(fold.first.init(scalars, compute))
        known = accumulators(fold.middle(scalars, first, var("length")))
        second = accumulators(fold.second_init(scalars, compute))
        each = flops_of(fold.first.step(scalars, first, x, index))
        each += flops_of(fold.second_step(scalars, second, x, known))
        whole = fold.join(scalars, known, second, var("length"))
        accs, joining = accumulators(whole), flops_of(whole)
    else:
        accs = accumulators(folding.start(here, sources) if folding.start else fold.init(scalars, compute))
        each = flops_of(fold.step(scalars, accs, x, index))
    ended = folding.result(here, sources, accs) if folding.result else fold.finish(scalars, accs, var("count"))
    done: Sequence[Value] = [ended] if isinstance(ended, Value) else ended
    if folding.epilogue is not None:
        done = folding.epilogue([Given(var(f"late{k}", r.code)) for k, r in enumerate(lowered.reads)], done)
    return each * positions + (joining + flops_of(done)) * results


def accumulators(values: Sequence[Value]) -> list[Value]:
    """Names in the place of values, so that what made them is not counted again."""
    return [var(f"acc{k}", v.dtype) for k, v in enumerate(values)]


def scattered(lowered: Lowered, at: At, sources: Sequence[Any], positions: int) -> Work:
    """Every position reads what it combines, and reads and writes the element it combines it into."""
    scatter = lowered.scatter
    assert scatter is not None, f"{lowered.name} scatters nothing"
    out = Elements(len(lowered.reads), "out", scatter.target.code, scatter.target.classes())
    _, value = scatter.writes(at, out, sources)
    old = var("old", scatter.target.code)
    new = scatter.combine(old, value, sources)
    size = itemsize(scatter.target.code)
    touched = min(prod(scatter.target.sizes), positions) * size
    reads_old = any(node is old for node in expand.walk([new]))
    moved = loaded(lowered, positions) + touched * (1 + reads_old)
    return Work(flops_of([new]) * positions, moved + (prod(scatter.target.sizes) * size if scatter.cleared else 0))


def itemsize(code: str) -> int:
    """Bytes of an element."""
    return BITS[code] // 8


def stored(lowered: Lowered) -> int:
    """Bytes of the results."""
    return prod(lowered.shape) * sum([itemsize(code) for code in lowered.outs])


def loaded(lowered: Lowered, positions: int) -> int:
    """Bytes of the elements read, each once."""
    total = 0
    for r in lowered.reads:
        if isinstance(r, Memory) and not isinstance(r, (Staged, Table)):
            total += min(distinct(r), positions) * itemsize(r.code)
    return total


def distinct(memory: Memory) -> int:
    """Elements of a tensor that lie at places of their own: a dim of stride 0 shows the same ones over and over."""
    dims = range(len(memory.sizes)) if memory.dims is None else {d for d in memory.dims if d is not None}
    return prod([memory.sizes[d] for d in dims if memory.strides[d] != 0])


# --- row programs -----------------------------------------------------------------------------------------------------


def work_of_rows(program: RowProgram, rows: int, columns: int) -> Work:
    """The cost of a fused op over `rows` rows of `columns` elements; a row that is read again is still in cache."""
    count = {FULL: rows * columns, ROW: rows, COLUMN: columns}
    flops = 0
    for node in reachable([node for node, _ in program.results]):
        flops += node_flops(node) * (rows * columns if node.form in ("fold", "total") else count[node.kind])
    moved = sum([count[o.kind] * itemsize(o.code) for o in program.operands])
    return Work(flops, moved + sum([count[node.kind] * itemsize(code) for node, code in program.results]))


def node_flops(node: RowNode) -> int:
    """Floating-point operations of one element of a node."""
    if node.form == "points":
        return flops_of([node.emit(lambda part, j: var(f"part{node.parts.index(part)}", part.code), None)])
    if node.form == "fold":
        folding = folding_of(node._op())
        element = node.element(lambda part, j: var("part", part.code), var("j"))
        accs = accumulators(folding.fold.init(scalars, folding.compute))
        x = var("element", folding.compute)
        return flops_of([element]) + flops_of(folding.fold.step(scalars, accs, x, None))
    return int(node.form == "total")
