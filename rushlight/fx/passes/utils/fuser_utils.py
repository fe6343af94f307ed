"""Fusing: nodes of a graph taken out as a module of their own, with one call left in their place.

Enters: partitions, lists of nodes that can be one call without a cycle. Leaves: the graph with a call_module per
partition. Refuses: partitions that would have to run before and after something outside of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ....nn import Module
from ...graph import Graph
from ...graph_module import GraphModule, _assign_attr, _get_attr
from ...node import Node
from ...proxy import Proxy

__all__ = [
    "HolderModule",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "erase_nodes",
    "lift_subgraph_as_module",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: Sequence[Node]) -> list[Node]:
    """The nodes so that each comes after those of them that it uses."""
    members = set(nodes)
    waits = {node: sum(used in members for used in node.all_input_nodes) for node in nodes}
    ready = deque(node for node in nodes if not waits[node])
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for user in node.users:
            if user in members:
                waits[user] -= 1
                if not waits[user]:
                    ready.append(user)
    assert len(ordered) == len(nodes), "topo_sort: the nodes depend on each other in a circle"
    return ordered


def validate_partition(partition: Sequence[Node]) -> bool:
    """Whether the nodes can be one call: nothing outside uses some of them and is used by others."""
    members = set(partition)
    waiting = deque(user for node in partition for user in node.users if user not in members)
    seen: set[Node] = set()
    while waiting:
        node = waiting.popleft()
        if node in seen:
            continue
        if node in members:
            return False
        seen.add(node)
        waiting.extend(node.users)
    return True


class HolderModule(Module):
    """Modules by name, and nothing else."""

    def __init__(self, d: dict[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A graph with targets of `gm` as a module of its own; and where its attributes went, by where they were."""
    root: dict[str, Any] = {
        node.target: _get_attr(gm, node.target) for node in subgraph.nodes if node.op in ("call_module", "get_attr")
    }
    return GraphModule(root, subgraph, class_name), {target: f"{comp_name}.{target}" for target in root}


def fuse_as_graphmodule(gm: GraphModule, nodes: Sequence[Node], module_name: str,
                        partition_lookup_table: dict[Node, Any] | None = None, *,
                        always_return_tuple: bool = False) -> tuple[GraphModule, tuple[Node, ...],
                        tuple[Node, ...]]:
    """The nodes as a module, with the nodes of `gm` that are its inputs and outputs."""
    for node in nodes:
        assert (
            node.graph.owning_module is gm and not node._erased
        ), f"fuse_as_graphmodule: {node} is not a node of this module's graph"
    assert validate_partition(nodes), "Invalid partition, found dependency cycles"
    members = set(nodes) if partition_lookup_table is None else set(partition_lookup_table)
    subgraph = Graph()
    inputs: dict[Node, Node] = {}
    result: dict[Node, Node] = {}

    def inside(x: Node) -> Node:
        if x in result or x in inputs:
            return result[x] if x in result else inputs[x]
        if x.op == "get_attr":   # constants travel with the code that uses them
            result[x] = subgraph.node_copy(x, lambda n: n)
        else:
            inputs[x] = subgraph.placeholder(x.name, type_expr=x.type)
            inputs[x].meta = dict(x.meta)
        return result[x] if x in result else inputs[x]

    for node in nodes:
        for used in node.all_input_nodes:
            if used not in members:
                inside(used)
    for node in nodes:
        result[node] = subgraph.node_copy(node, inside)
    outputs = tuple(node for node in nodes if any(user not in members for user in node.users))
    results = tuple(result[node] for node in outputs)
    subgraph.output(results if always_return_tuple or len(results) != 1 else results[0])
    subgraph.lint()
    module, _ = lift_subgraph_as_module(gm, subgraph, comp_name="", class_name=module_name)
    return module, tuple(inputs), outputs


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...], orig_outputs: tuple[Node, ...]
) -> GraphModule:
    """Call `sub_gm` where the nodes it was made of were, and let its results be used in their place."""
    name = type(sub_gm).__name__
    _assign_attr(sub_gm, gm, name)
    last = max(orig_outputs) if orig_outputs else max(orig_inputs)
    with gm.graph.inserting_after(last):
        call = gm.graph.call_module(name, orig_inputs)
    returned = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(returned, tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    with gm.graph.inserting_after(call):
        results = [Proxy(call)[i].node for i in range(len(orig_outputs))]
    call.meta["val"] = tuple(output.meta.get("val") for output in orig_outputs)
    for output, result in zip(orig_outputs, results, strict=True):
        output.replace_all_uses_with(result, propagate_meta=True)
    return gm


def erase_nodes(gm: GraphModule, nodes: Sequence[Node]) -> None:
    """Erase nodes, users before what they use."""
    for node in reversed(topo_sort(nodes)):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: list[Any], prefix: str = "fused_", always_return_tuple: bool = False
) -> GraphModule:
    """Each partition (a list or dict of nodes) as a submodule `<prefix><number>`."""
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        sub_gm, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, sub_gm, inputs, outputs)
        erase_nodes(gm, nodes)
    reorder(gm.graph)
    gm.graph.lint()
    return gm


def reorder(graph: Graph) -> None:
    """Put the nodes in an order in which each comes after what it uses, changing as little as possible."""
    waiting = list(graph.nodes)
    done: set[Node] = set()
    at = graph._root
    while waiting:
        ready = next((n for n in waiting if all(used in done for used in n.all_input_nodes)), None)
        assert ready is not None, "the graph depends on itself in a circle"
        waiting.remove(ready)
        if at.next is not ready:
            at.append(ready)
        at = ready
        done.add(ready)
