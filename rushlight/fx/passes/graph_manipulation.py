"""Sizes of a graph's values and parameters in bytes, and changing targets."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, Target, map_arg
from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):  # noqa: N801 - PyTorch's name
    """Bytes of a node's value, and of that with its parameters and buffers."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Every node of an opcode and target gets another opcode and target."""
    result, values = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = (map_arg(a, values.__getitem__) for a in (node.args, node.kwargs))
            values[node] = result.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            values[node] = result.node_copy(node, values.__getitem__)
    result._codegen = fx_module.graph._codegen
    fx_module.graph = result


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Note the bytes of every node in `node.size_bytes`; `args` are run first, to know the shapes."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> TensorMetadata:
    """What ShapeProp noted; refuses nodes it did not see."""
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"{node} has no tensor_meta: run ShapeProp on the graph first")
    return found


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of one node."""
    held = 0
    if node.op == "call_module":
        called: Module = dict(fx_module.named_modules())[node.target]
        held = sum(t.numel() * t.element_size() for t in (*called.parameters(), *called.buffers()))
    meta = get_tensor_meta(node)
    count = 1
    for n in meta.shape:
        count *= n
    own = count * meta.dtype.itemsize
    return size_bytes(own, own + held)
