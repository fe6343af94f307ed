"""Rows of whole vectors: scores over an odd number of classes (a vocabulary of 50257) get room behind their rows.

Enters: a joint graph. Leaves: the same, with `meta["line"]` (and strides in `meta["val"]`) on products and gradients
whose rows are to start at whole vectors: matrix units read and write those several times faster, and kernels over rows
do not care. It is decided here because what the forward lays out the backward reads. Nothing that the caller sees is
laid out so, and nothing that an op other than products and row losses reads.
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from .._C import Tensor
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_arg
from ..planners.products.gemm import own_kernel
from ..planners.products.padded import WHOLE, pays, rounded

PRODUCTS = ("linear", "matmul", "mm")
ROWS = ("_cross_entropy_rows", "_cross_entropy_rows_backward")


def lay_out_lines(joint: GraphModule) -> None:
    """Choose which values of the graph have room behind their rows."""
    returned = {n for n in joint.graph.output_node().args[0] if isinstance(n, Node)}
    for node in joint.graph.nodes:
        if name_of(node) in (*PRODUCTS, ROWS[1]) and wants_room(node):
            views = looks_at(node)
            used = {user for n in (node, *views) for user in n.users} - {*views}
            if not returned & {node, *views} and all(name_of(user) in (*PRODUCTS, *ROWS) for user in used):
                give_room(node, views)


def name_of(node: Node) -> str | None:
    """The op that a node calls."""
    return node.target.definition.name if isinstance(node.target, _C.Overload) else None


def wants_room(node: Node) -> bool:
    """Whether a node makes large rows of a half type that are no whole vectors, where a device has own products."""
    value = node.meta.get("val")
    if not hasattr(value, "fake_mode") or value.device.type in ("cpu", "meta") or value.ndim < 2:
        return False
    if any(type(n) is not int for n in value.shape) or not value.is_contiguous():
        return False
    if name_of(node) == "linear" and len(node.args) > 2 and node.args[2] is not None:
        return False
    cols = value.shape[-1]
    rows = math.prod(value.shape[:-1])
    if not cols % WHOLE or rows % WHOLE or not pays(value.dtype.code, rows, cols, inside(node)):
        return False
    return own_kernel(value.device, value.dtype.code) is not None


def inside(node: Node) -> int:
    """The size that a product sums over; for others, none that matters."""
    return int(node.args[0].meta["val"].shape[-1]) if name_of(node) in PRODUCTS else 1 << 20


def looks_at(node: Node) -> list[Node]:
    """Every view of a node, in order."""
    found: list[Node] = []
    for n in node.graph.nodes:
        is_view = isinstance(n.target, _C.Overload) and n.target.is_view and len(n.all_input_nodes) == 1
        if is_view and n.all_input_nodes[0] in (node, *found) and isinstance(n.meta.get("val"), Tensor):
            found.append(n)
    return found


def give_room(node: Node, views: list[Node]) -> None:
    """Lay a node out in lines, and its views as that has them; nothing where a view does not fit."""
    value = node.meta["val"]
    line, steps = rounded(value.shape[-1]), [1]
    for n in reversed((*value.shape[1:-1], line)):
        steps.insert(0, steps[0] * n)
    results: dict[Any, Any] = {}
    try:
        with value.fake_mode:
            results[node] = value.new_empty_strided(tuple(value.shape), tuple(steps))
            for n in views:
                args, kwargs = map_arg((n.args, n.kwargs), lambda other: results[other])
                results[n] = n.target(*args, **kwargs)
    except RuntimeError:      # rows that are not one in memory any more cannot be looked at so
        return
    node.meta["line"] = line
    for n, seen in results.items():
        n.meta["val"] = seen
