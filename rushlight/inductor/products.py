"""Matrix products of a graph, seen together: sums of many small ones are one, and weights used again are packed once.

Enters: the nodes of a graph. Leaves: fewer of them, with the same results up to the order of sums.

    g0.t() @ h0 + g1.t() @ h1 + ...    =    cat(g0, g1, ...).t() @ cat(h0, h1, ...)

Recurrent networks are full of the left side: every step of time adds to the gradient of the same weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.schedule.forms.wishes import Wishes
from ..op.registry import find_op
from .read_graph import Node, Reader
from .values import Buffer, Value, named

FEWEST_PRODUCTS = 3      # of a sum, or with one weight, from which on it pays to treat them together
LONGEST_PRODUCT = 256    # steps of k up to which a product is better done with others


def improve(reader: Reader, outputs: Sequence[Value]) -> None:
    """Rewrite the reader's nodes."""
    changing = {b for n in reader.nodes for b in n.writes}      # what looks equal need not be
    join_sums(reader, outputs, changing)
    share_packing(reader, changing)


# --- sums of products -------------------------------------------------------------------------------------------------


def join_sums(reader: Reader, outputs: Sequence[Value], changing: set[Buffer]) -> None:
    """Every sum of short products as one product."""
    uses: dict[Buffer, int] = {}
    for v in (*[v for n in reader.nodes for v in n.inputs], *outputs):
        uses[v.buffer] = uses.get(v.buffer, 0) + 1
    result = {n.results[0].buffer: n for n in reader.nodes if len(n.results) == 1}
    inside = {id(part) for n in reader.nodes if is_sum(n) for part in summands(n, result, uses) if is_sum(part)}
    gone: set[int] = set()
    instead: dict[int, list[Node]] = {}
    for root in reader.nodes:
        if not is_sum(root) or id(root) in inside:
            continue
        adds, leaves = tree(root, result, uses)
        if (
            len(leaves) >= FEWEST_PRODUCTS
            and all(is_short(n) and not changing & {v.buffer for v in n.inputs} for n in leaves)
            and root.results[0].is_contiguous
        ):
            instead[id(root)] = one_product(reader, leaves, root.results[0])
            gone |= {id(n) for n in (*adds, *leaves)}
    if instead:
        reader.nodes = [n for old in reader.nodes for n in instead.get(id(old), [] if id(old) in gone else [old])]


def is_sum(node: Node) -> bool:
    """Whether the node adds two tensors of one shape."""
    if node.form != "points" or node.definition.name != "add" or len(node.inputs) != 2:
        return False
    a, b = node.inputs
    return (
        all(x in (None, 1) for x in node.args[2:])
        and a.sizes == b.sizes == node.results[0].sizes
        and a.dtype is b.dtype
        and a.is_whole
        and b.is_whole
    )


def summands(node: Node, producers: dict[Buffer, Node], uses: dict[Buffer, int]) -> list[Node]:
    """The nodes whose results are added here and read nowhere else."""
    return [producers[v.buffer] for v in node.inputs if v.buffer in producers and uses[v.buffer] == 1]


def tree(root: Node, producers: dict[Buffer, Node], uses: dict[Buffer, int]) -> tuple[list[Node], list[Node]]:
    """The additions below a root, and what they add; nothing where a summand is needed elsewhere too."""
    adds, leaves, stack = [], [], [root]
    while stack:
        node = stack.pop()
        if not is_sum(node):
            leaves.append(node)
            continue
        parts = summands(node, producers, uses)
        if len(parts) != 2:
            return [], []
        adds.append(node)
        stack += reversed(parts)
    return adds, leaves


def is_short(node: Node) -> bool:
    """Whether the node is a product of two matrices with few steps of k."""
    if node.form != "steps" or node.definition.name not in ("matmul", "mm"):
        return False
    a, b = node.inputs
    return len(a.sizes) == len(b.sizes) == 2 and a.sizes[1] <= LONGEST_PRODUCT


def one_product(reader: Reader, products: Sequence[Node], result: Value) -> list[Node]:
    """Nodes that compute the sum of the products into `result`."""
    before, reader.nodes = reader.nodes, []
    left = reader.op(find_op("cat"), [transposed(n.inputs[0]) for n in products], 0)
    right = reader.op(find_op("cat"), [n.inputs[1] for n in products], 0)
    reader.op(find_op("mm"), transposed(left), right)
    reader.nodes[-1].results = [result]
    found, reader.nodes = reader.nodes, before
    return found


def transposed(v: Value) -> Value:
    """The transpose of a matrix."""
    return Value(v.buffer, v.sizes[::-1], v.strides[::-1], v.offset, v.dtype)


# --- weights used again -----------------------------------------------------------------------------------------------


def share_packing(reader: Reader, changing: set[Buffer]) -> None:
    """Products with one right operand pack it apart: the packed copies are equal, and the emitter makes one.

    So do those with weights, which are packed once for many calls."""
    users: dict[tuple, list[Node]] = {}
    for n in reader.nodes:
        if n.form == "steps" and n.definition.name in ("matmul", "mm", "linear") and not n.is_settled:
            v = n.inputs[1]
            if v.buffer in changing:
                continue
            users.setdefault(named(v), []).append(n)
    for nodes in users.values():
        if len(nodes) < FEWEST_PRODUCTS and not nodes[0].inputs[1].buffer.is_static:
            continue
        for n in nodes:
            plan: Any = reader.planned(n.definition, n.args, Wishes(packs_apart=True))
            if plan is not None:
                n.plan = plan
