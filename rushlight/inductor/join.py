"""One Lowered of a group of pointwise nodes.

Enters: nodes over one shape, in order, and which of their results are read outside. Leaves: a Lowered over what the
group reads, with those results. Values between the nodes are rounded to the types that the ops would have stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loops.expr import cast
from ..loops.lowered import Given, Lowered, Memory, Number
from .read_graph import Node
from .values import Buffer, Value, named


def group_lowered(nodes: Sequence[Node], outs: Sequence[Buffer]) -> tuple[Lowered, list[Value]]:
    """The group as one body, and the values that it reads, in order."""
    first = nodes[0].results[0]
    order = loop_order(first)
    results: dict[Buffer, tuple[int, int]] = {}
    for k, node in enumerate(nodes):
        for r, v in enumerate(node.results):
            results[v.buffer] = (k, r)
    reads: list[Any] = []
    values: list[Value] = []
    wiring: list[tuple] = []
    known: dict[tuple, int] = {}
    for k, node in enumerate(nodes):
        own, inputs = [], iter(node.inputs)
        for r in node.lowered.reads:
            if isinstance(r, Number):
                own.append(("given", len(reads)))
                reads.append(r.but(name=f"number{len(reads)}"))
                continue
            v = next(inputs)
            if v.buffer in results and results[v.buffer][0] < k:
                own.append(("made", *results[v.buffer]))
                continue
            dims = tuple([r.dims[d] for d in order])
            where = (v.buffer, named((v.offset, r.sizes, r.strides)), dims, r.code)
            if where not in known:
                known[where] = len(reads)
                reads.append(Memory(f"x{len(reads)}", r.code, r.sizes, r.strides, dims, r.offset))
                values.append(v)
            own.append(("read", known[where]))
        wiring.append(tuple(own))
    wanted = [results[b] for b in outs]
    bodies = [(n.lowered.body, n.lowered.outs) for n in nodes]

    def body(at: Any, sources: Sequence[Any]) -> list[Any]:
        env: list[list[Any]] = []
        for (compute, codes), own in zip(bodies, wiring, strict=True):
            given = [sources[w[1]] if w[0] != "made" else Given(env[w[1]][w[2]]) for w in own]
            env.append([cast(v, code) for v, code in zip(compute(at, given), codes, strict=True)])
        return [env[k][r] for k, r in wanted]

    ranges = tuple([first.sizes[d] for d in order])
    codes = tuple([nodes[k].lowered.outs[r] for k, r in wanted])
    key = ("group", tuple([(n.lowered.key, n.lowered.outs) for n in nodes]), tuple(wiring), tuple(wanted))
    name = (
        nodes[0].definition.name if len(nodes) == 1 else "_".join(dict.fromkeys(n.definition.name for n in nodes))[:60]
    )
    return Lowered(name, key, ranges, ranges, codes, tuple(reads), body), values


def loop_order(value: Value) -> list[int]:
    """The dims from the slowest in memory to the fastest."""
    return sorted(range(len(value.sizes)), key=lambda d: (-value.strides[d], d))
