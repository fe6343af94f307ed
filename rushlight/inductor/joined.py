"""Results that are joined with others at once: written where the joined tensor has them, so that nothing is copied.

Enters: the nodes of a graph. Leaves: fewer of them. The gradients of query, key and value are the case that matters:

    cat((d_query, d_key, d_value), -1)      of which each is [batch, heads, length, width], heads inside positions
    cat((d_query, d_key, d_value), 0).permute(1, 3, 0, 2, 4).contiguous()

Done for ops that fill tensors of any layout, which are those whose plan is one call of Python. Where a copy in another
order is all that reads the joined tensor, parts are written where the copy has them. So are results of pointwise ops
that nothing but such a copy reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..loops.record import Record
from .read_graph import Node, Reader
from .values import Buffer, Value


class Digit(Record):
    """A dim of elements that are moved: its size, and its strides where they were and where they go."""

    size: int
    old: int
    new: int


def write_joined(reader: Reader, outputs: Sequence[Value]) -> None:
    """Remove each cat whose parts can be written in place."""
    readers: dict[Buffer, list[Node]] = {}
    for n in reader.nodes:
        for v in n.inputs:
            readers.setdefault(v.buffer, []).append(n)
    makers = {v.buffer: n for n in reader.nodes if fills_any_layout(n) for v in n.results}
    kept = {v.buffer for v in outputs}
    gone = set()
    for cat in reader.nodes:
        if cat.form != "steps" or cat.definition.name != "cat" or len(cat.results) != 1:
            continue
        buffers = [v.buffer for v in cat.inputs]
        alone = all(b in makers and b not in kept and readers[b] == [cat] for b in buffers)
        whole = cat.results[0]
        if not alone or len({*buffers}) != len(buffers) or not is_settled(whole) or not whole.is_contiguous:
            continue
        copies = [] if whole.buffer in kept else readers.get(whole.buffer, [])
        last = copies[0] if len(copies) == 1 and reorders(copies[0], whole) else None
        placed = places(cat, last)
        if placed is None and last is not None:
            last, placed = None, places(cat, None)
        if placed is not None:
            for b, value in placed.items():
                makers[b].results = [value if v.buffer is b else v for v in makers[b].results]
            gone.update(id(n) for n in (cat, last) if n is not None)
    reader.nodes = [n for n in reader.nodes if id(n) not in gone]


def write_turned(reader: Reader, outputs: Sequence[Value]) -> None:
    """Remove each copy in another order of what a pointwise op made for it alone, of what lies in memory anyway (with
    an op before it, that op would share a kernel as it lies)."""
    uses: dict[Buffer, int] = {}
    for v in (*[v for n in reader.nodes for v in n.inputs], *outputs):
        uses[v.buffer] = uses.get(v.buffer, 0) + 1
    fused = {v.buffer for n in reader.nodes if n.form in ("points", "rows", "fold") for v in n.results}
    makers = {
        n.results[0].buffer: n for n in reader.nodes
        if n.form == "points" and len(n.results) == 1 and fused.isdisjoint([v.buffer for v in n.inputs])
    }
    gone = set()
    for copy in reader.nodes:
        made = copy.inputs[0].buffer if copy.inputs else None
        maker = makers.get(made) if made is not None and uses[made] == 1 else None
        if maker is None or maker.writes or not is_settled(maker.results[0]) or not reorders(copy, maker.results[0]):
            continue
        whole, read, target = maker.results[0], copy.inputs[0], copy.results[0]
        moved = carried(list(zip(whole.sizes, whole.strides, strict=True)), 0,
                        digits(read.sizes, read.strides, target.strides))
        if moved is not None and target.is_contiguous:
            maker.results = [Value(target.buffer, whole.sizes, moved[0], 0, whole.dtype)]
            gone.add(id(copy))
    reader.nodes = [n for n in reader.nodes if id(n) not in gone]


def fills_any_layout(node: Node) -> bool:
    """Whether the node is one call of Python that is given the tensors it fills."""
    if node.form != "steps" or node.writes or not all(is_settled(v) for v in node.results):
        return False
    return len(node.plan.parts[0]) == 1 and callable(node.plan.parts[0][0].kernel)


def is_settled(value: Value) -> bool:
    """Whether it is all of its memory, of a size that is known."""
    return value.is_whole and not value.varies


def reorders(node: Node, whole: Value) -> bool:
    """Whether the node copies every element of `whole` once, to memory of its own."""
    if node.definition.name not in ("clone", "contiguous") or len(node.results) != 1 or len(node.inputs) != 1:
        return False
    read, result = node.inputs[0], node.results[0]
    return is_settled(result) and not read.varies and read.dtype is result.dtype is whole.dtype and covers(read)


def covers(value: Value) -> bool:
    """Whether a value is every element of its buffer once, in any order."""
    if value.offset or value.dtype is not value.buffer.dtype:
        return False
    reach = 1
    for n, s in sorted([(n, s) for n, s in zip(value.sizes, value.strides, strict=True) if n != 1], key=lambda d: d[1]):
        if s != reach:
            return False
        reach *= n
    return reach == math.prod(value.buffer.sizes)


def places(cat: Node, copy: Node | None) -> dict[Buffer, Value] | None:
    """For each buffer that is joined, its elements where the result has them, or the copy of that; None where one has
    no such strides."""
    whole = cat.results[0]
    if not isinstance(cat.args[1], int) or any(len(v.sizes) != len(whole.sizes) for v in cat.inputs):
        return None
    dim, start, found = cat.args[1] % len(whole.sizes), 0, {}
    for v in cat.inputs:
        if v.varies or v.dtype is not whole.dtype or not covers(v):
            return None
        own = list(zip(v.buffer.sizes, v.buffer.strides, strict=True))
        moved = carried(own, 0, digits(v.sizes, v.strides, whole.strides))
        if moved is None:
            return None
        steps, offset, target = moved[0], start * whole.strides[dim], whole
        if copy is not None:
            sizes = [(n, s) for (n, _), s in zip(own, steps, strict=True)]
            read, target = copy.inputs[0], copy.results[0]
            moved = carried(sizes, offset, digits(read.sizes, read.strides, target.strides))
            if moved is None:
                return None
            steps, offset = moved
        found[v.buffer] = Value(target.buffer, v.buffer.sizes, steps, offset, v.dtype)
        start += v.sizes[dim]
    return found


def digits(sizes: Sequence[int], old: Sequence[int], new: Sequence[int]) -> list[Digit]:
    """The dims from the fastest to the slowest, those that are one both before and after joined."""
    result: list[Digit] = []
    for n, s, t in sorted(zip(sizes, old, new, strict=True), key=lambda d: d[1]):
        if n == 1:
            continue
        if result and s == result[-1].size * result[-1].old and t == result[-1].size * result[-1].new:
            result[-1] = Digit(result[-1].size * n, result[-1].old, result[-1].new)
        else:
            result.append(Digit(n, s, t))
    return result


def carried(dims: Sequence[tuple[int, int]], start: int, table: Sequence[Digit]) -> tuple[list[int], int] | None:
    """Strides and first element of what lies at (size, stride) and `start`, after a move; None where a dim goes through
    several dims of the move, or over the end of one."""
    reach = [start // d.old % d.size for d in table]
    moved = sum([at * d.new for at, d in zip(reach, table, strict=True)])
    strides = []
    for n, step in dims:
        where = next((k for k, d in enumerate(table) if step % d.old == 0 and step < d.old * d.size), None)
        if where is None:
            if n != 1:
                return None
            strides.append(step)      # nothing lies along it
            continue
        reach[where] += (n - 1) * (step // table[where].old)
        strides.append(step // table[where].old * table[where].new)
    return (strides, moved) if all(at < d.size for at, d in zip(reach, table, strict=True)) else None
