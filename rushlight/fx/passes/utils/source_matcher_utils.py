"""Parts of a graph by what they were written as: the nodes that `nn.Linear` or `F.relu` became.

Enters: a graph whose nodes say where they come from (`source_fn_stack`, `torch_fn`, `nn_module_stack`), and the
functions, classes or names wanted. Leaves: `SourcePartition`s by source: the nodes of each call, what enters, leaves
and is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph
from ...node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes of one call."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _source_of(node: Node, wanted: list[Any]) -> tuple[Any, str] | None:
    """Which of the wanted sources a node comes from, and the name of that call."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1]
        return (source, name) if source in wanted else None
    if node.meta.get("torch_fn") is not None:
        name, called = node.meta["torch_fn"]
        source = called.split(".")[1]
        if source in wanted:
            return source, name
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return None
    path, kind = list(modules.values())[-1]
    return next(((source, path) for source in wanted if _is_made_by(kind, source)), None)


def _is_made_by(kind: Any, source: Any) -> bool:
    """Whether a module of a class (or of a class of this name) is one of `source`."""
    if isinstance(source, type):
        if isinstance(kind, type):
            return issubclass(kind, source)
        return kind == f"{source.__module__}.{source.__qualname__}"
    return kind == source


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Partitions by source, in the order of the graph; those with a node that `filter_fn` refuses are left out."""
    calls: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        found = _source_of(node, wanted_sources)
        if found is not None:
            calls.setdefault(found[0], {}).setdefault(found[1], []).append(node)
    return {
        source: [_partition(nodes, source) for nodes in by_call.values()
                 if filter_fn is None or all(map(filter_fn, nodes))]
        for source, by_call in calls.items()
    }


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    entering = (arg for node in nodes for arg in node.args
                if isinstance(arg, Node) and arg not in nodes and arg.op != "get_attr")
    leaving = (node for node in nodes if node.op != "get_attr" and any(user not in nodes for user in node.users))
    held = (node for node in nodes if node.op == "get_attr")
    return SourcePartition(nodes, source, *map(_once, (entering, leaving, held)))


def _once(nodes: Iterator[Node]) -> list[Node]:
    return list(dict.fromkeys(nodes))


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether a node of the second uses one of the first."""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
