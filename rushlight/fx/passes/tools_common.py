"""Names of targets, tensors among values, and putting graphs in order:
shared by passes and written-out-of-tree backends."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from ..._C import Tensor
from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, _get_qualified_name
from ..spelling import public_module

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[Tensor] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: str | type) -> str:
    """The name of a target: its text, or module and name of a class or function."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{public_module(k)}.{k.__name__}" if isinstance(k, type) else _get_qualified_name(k)


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of what a node calls; for a module, that of its class."""
    assert (
        node.op in CALLABLE_NODE_OPS
    ), f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}"
    if node.op == "call_module":
        submodule = submodules[node.target]
        return get_acc_ops_name(getattr(submodule, "_base_class_origin", type(submodule)))
    if node.op == "call_function":
        is_acc = "acc_ops" in (getattr(node.target, "__module__", None) or "")
        return f"acc_ops.{node.target.__name__}" if is_acc else _get_qualified_name(node.target)
    return node.target


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node's value is a tensor, as far as ShapeProp noted."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


class FxNetAccFusionsFinder:
    """Groups of accelerated nodes tied together by values that are not tensors: those must not be split."""

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    @dataclass
    class FusionGroup:
        """One group, and the nodes outside that feed it."""

        top_node_idx: int
        nodes: NodeSet
        inputs: NodeSet
        nodes_need_process: NodeSet

    def __call__(self) -> dict[Node, NodeSet]:
        """Each node of a group, with its group."""
        groups: dict[Node, NodeSet] = {}
        for node in list(self.acc_nodes):
            if node in groups or node.op not in CALLABLE_NODE_OPS or "tensor_meta" in node.meta:
                continue
            group = self._grow(node)
            if group <= self.acc_nodes:
                groups.update(dict.fromkeys(group, group))
            else:   # a value that leaves the accelerator takes its whole group along
                self.acc_nodes -= group
        return groups

    def _grow(self, start: Node) -> NodeSet:
        group, waiting = {start}, [start]
        while waiting:
            node = waiting.pop()
            linked = [u for u in node.users if u.op in CALLABLE_NODE_OPS] if "tensor_meta" not in node.meta else []
            linked += [i for i in node.all_input_nodes if i.op in CALLABLE_NODE_OPS and "tensor_meta" not in i.meta]
            for other in linked:
                if other not in group:
                    group.add(other)
                    waiting.append(other)
        return group


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Nodes after what they use, otherwise in the order they had."""
    order = {node: i for i, node in enumerate(gm.graph.nodes)}
    waits = {node: len(node.all_input_nodes) for node in order}
    ready = [(i, node) for node, i in order.items() if not waits[node]]
    heapq.heapify(ready)
    result, values = Graph(), {}
    while ready:
        _, node = heapq.heappop(ready)
        values[node] = result.node_copy(node, values.__getitem__)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (order[user], user))
    left = [node for node in order if waits[node]]
    if left:
        raise AssertionError(f"Input graph has cycles, unable to add {left}")
    result._codegen = gm.graph._codegen
    gm.graph = result
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """The graph in an order that can run."""
    return stable_topological_sort(gm)
