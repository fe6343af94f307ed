"""Ops that copy a tensor which nobody else reads, and write to the copy, write to the tensor itself.

Enters: the nodes of a graph. Leaves: as many, with the same results.

    zeros(n, m).index_add(0, rows, g)    =    zeros(n, m).index_add_(0, rows, g)

The gradients of embeddings are such: a copy of the whole table for the few rows that a step adds to.
"""

from __future__ import annotations

from collections.abc import Sequence

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
