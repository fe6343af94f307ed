"""Results that are joined with others at once: written where the joined tensor has them, so that nothing is copied.

Enters: the nodes of a graph. Leaves: fewer of them. The gradients of query, key and value are the case that matters:

    cat((d_query, d_key, d_value), -1)      of which each is [batch, heads, length, width], heads inside positions

Done for ops that fill tensors of any layout, which are those whose plan is one call of Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .read_graph import Node, Reader
from .values import Buffer, Value


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
        placed = parts_of(cat) if alone and len({*buffers}) == len(buffers) else None
        if placed is not None:
            for b, place in placed.items():
                results = [moved(v, cat.results[0], *place) if v.buffer is b else v for v in makers[b].results]
                makers[b].results = results
            gone.add(id(cat))
    reader.nodes = [n for n in reader.nodes if id(n) not in gone]


def fills_any_layout(node: Node) -> bool:
    """Whether the node is one call of Python that is given the tensors it fills."""
    if node.form != "steps" or node.writes or any(v.varies or not v.is_whole for v in node.results):
        return False
    return len(node.plan.parts[0]) == 1 and callable(node.plan.parts[0][0].kernel)


def parts_of(cat: Node) -> dict[Buffer, tuple[int, int, int]] | None:
    """How long the rows of each part are, where they begin in those of the whole, and how long those are; None where
    they are no rows."""
    whole = cat.results[0]
    dim = cat.args[1] % len(whole.sizes) if isinstance(cat.args[1], int) else None
    if dim is None or not whole.is_whole or not whole.is_contiguous or whole.varies:
        return None
    inner, long, start, found = math.prod(whole.sizes[dim + 1 :]), math.prod(whole.sizes[dim:]), 0, {}
    for v in cat.inputs:
        row = v.sizes[dim] * inner
        covers = v.offset == 0 and v.is_contiguous and math.prod(v.sizes) == math.prod(v.buffer.sizes)
        if v.dtype is not whole.dtype or v.dtype is not v.buffer.dtype or not covers or not splits(v.buffer, row):
            return None
        found[v.buffer] = row, start, long
        start += row
    return found if start == long else None


def splits(buffer: Buffer, row: int) -> bool:
    """Whether each dim of a dense buffer lies inside rows of this length, or counts whole ones."""
    return all(n == 1 or s % row == 0 or s * n <= row for n, s in zip(buffer.sizes, buffer.strides, strict=True))


def moved(value: Value, whole: Value, row: int, start: int, long: int) -> Value:
    """A whole buffer's elements, its rows now parts of the longer ones of `whole`."""
    strides = [s // row * long if s % row == 0 else s for s in value.strides]
    return Value(whole.buffer, value.sizes, strides, start, value.dtype)
