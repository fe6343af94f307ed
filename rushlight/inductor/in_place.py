"""Ops that copy a tensor which nobody else reads, and write to the copy, write to the tensor itself.

Enters: the nodes of a graph. Leaves: as many, with the same results.

    zeros(n, m).index_add(0, rows, g)    =    zeros(n, m).index_add_(0, rows, g)

The gradients of embeddings are such: a copy of the whole table for the few rows that a step adds to. So are inputs
that the program writes to, whose new values the graph would return: keys and values that a decoder keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..op.registry import find_op
from .read_graph import Node, Reader, bind, flat, is_value
from .values import Buffer, Value

WRITERS = ("index_add", "index_copy", "index_put", "scatter", "scatter_add", "scatter_reduce")


def write_in_place(reader: Reader, outputs: Sequence[Value]) -> None:
    """Let nodes write to what was made for them alone. In graphs for many sizes they do not: the plans of the forms
    that write know theirs, and would be made again for each."""
    if reader.symbols:
        return
    uses: dict[Buffer, int] = {}
    for v in (*[v for n in reader.nodes for v in n.inputs], *outputs):
        uses[v.buffer] = uses.get(v.buffer, 0) + 1
    written = {b for n in reader.nodes for b in n.writes}
    # What is made of nothing is made anew for each call; what is made of weights may be kept.
    makers = {n.results[0].buffer: n for n in reader.nodes if not n.inputs and len(n.results) == 1 and not n.writes}
    for k, node in enumerate(reader.nodes):
        if node.form != "steps" or node.definition.name not in WRITERS or len(node.results) != 1 or not is_plain(node):
            continue
        target, result = node.args[0], node.results[0]
        maker = makers.get(target.buffer) if is_value(target) else None
        if maker is None or uses[target.buffer] != 1 or target.buffer in written or not alike(target, result):
            continue
        instead = in_place(reader, node, result)
        if instead is not None:
            maker.results = [result]
            reader.nodes[k] = instead


def write_inputs(reader: Reader, outputs: Sequence[Any], overwritten: Mapping[int, Value]) -> list[Any]:
    """The outputs; None in place of new values of inputs (by position in `overwritten`) that nodes now write there."""
    result = list(outputs)
    values = [v for n in reader.nodes for v in n.inputs] + [v for v in outputs if is_value(v)]
    uses: dict[Buffer, int] = {}
    for v in values:
        uses[v.buffer] = uses.get(v.buffer, 0) + 1
    written = {b for n in reader.nodes for b in n.writes}
    for position, given in overwritten.items():
        found = [(k, n) for k, n in enumerate(reader.nodes) if is_value(result[position]) and len(n.results) == 1
                 and n.results[0].buffer is result[position].buffer]
        if len(found) != 1 or uses[given.buffer] != 1 or given.buffer in written or not result[position].is_whole:
            continue
        (k, node), = found
        new, target = node.results[0], node.args[0] if node.args else None
        fits = node.form == "steps" and node.definition.name in WRITERS and is_plain(node) and is_value(target)
        returned = [v for v in outputs if is_value(v) and v.buffer is new.buffer]
        if not fits or target.buffer is not given.buffer or not alike(target, new) or len(returned) != 1:
            continue
        new.buffer.number = new.buffer.slot = given.buffer.number      # the input's memory, as it is afterwards
        instead = in_place(reader, node, new)
        if instead is None:
            new.buffer.number, new.buffer.slot = -1, None
            continue
        reader.nodes[k], result[position] = instead, None
    return result


def is_plain(node: Node) -> bool:
    """Whether it is the op itself that runs, not what a transform made of it under the same name."""
    own = find_op(node.definition.name).overload_list
    return any(type(o.definition) is type(node.definition) for o in own)


def alike(target: Value, result: Value) -> bool:
    """Whether both are all of their memory, which is laid out the same."""
    return (
        target.is_whole and result.is_whole
        and (target.sizes, target.strides, target.dtype) == (result.sizes, result.strides, result.dtype)
    )


def in_place(reader: Reader, node: Node, target: Value) -> Node | None:
    """The node as one that writes to `target`; None where that has no plan."""
    names = [p.name for p in node.definition.spec.params]
    for overload in find_op(f"{node.definition.name}_").overload_list:
        if [p.name for p in overload.definition.spec.params] != names:
            continue
        args = bind(overload, (target, *node.args[1:]), {})
        found = Node(node.name, overload, args, [v for v in flat(args) if isinstance(v, Value)])
        plan = reader.planned(overload.definition, args)
        if plan is None:
            return None
        reader.adopt(found, plan)
        found.form, found.is_settled = "steps", True
        return found if [v.buffer for v in found.results] == [target.buffer] else None
    return None
