"""Graphs as plain records, for pickles: nodes by number, functions by name.

Enters: a graph. Leaves: a record of tuples and names from which an equal graph is made, without running anything.
Refuses: functions that no name leads to (lambdas, functions inside functions, overloads made for one transform).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _C
from ..aten.overloads import AtenOverload
from .graph import Graph
from .node import Node, map_aggregate
from .spelling import is_ours, package, qualified_name


class NodeAt(NamedTuple):
    """Stands for the node of a number among arguments."""

    number: int


class NamedFunction(NamedTuple):
    """Stands for one of our functions or ops, by the name generated code uses."""

    name: str

    def find(self) -> Any:
        found: Any = package()
        for part in self.name.split(".")[1:]:
            found = getattr(found, part)
        return found


class GraphRecord(NamedTuple):
    """All of a graph but its owner."""

    nodes: list[tuple]
    codegen: Any
    co_fields: dict[str, Any]


def _record_function(x: Any) -> Any:
    if isinstance(x, (_C.Op, _C.Overload, AtenOverload)) or hasattr(x, "_qualified_op_name"):
        if not is_ours(x):
            raise RuntimeError(
                f"GraphModule: {x} was made for one transform and has no name, so a graph that calls it cannot be"
                " pickled"
            )
        return NamedFunction(qualified_name(x))
    if callable(x) and ("<locals>" in getattr(x, "__qualname__", "") or "<lambda>" in getattr(x, "__qualname__", "")):
        raise RuntimeError(
            f"GraphModule: {x!r} cannot be pickled, because it cannot be imported: define it at a module's top level"
        )
    return x


def record(graph: Graph) -> GraphRecord:
    """A graph as a record."""
    numbers = {node: i for i, node in enumerate(graph.nodes)}

    def leaf(x: Any) -> Any:
        return NodeAt(numbers[x]) if isinstance(x, Node) else _record_function(x)

    nodes = []
    for node in graph.nodes:
        target = _record_function(node.target) if callable(node.target) else node.target
        kept = {key: node.meta[key] for key in ("stack_trace", "is_wrapped") if node.meta.get(key)}
        nodes.append((node.op, node.name, target, *map_aggregate((node.args, node.kwargs), leaf), node.type, kept))
    codegen = copy.copy(graph._codegen)
    codegen._body_transformer = None   # a function of this process
    return GraphRecord(nodes, codegen, graph._co_fields)


def rebuild(record: GraphRecord, tracer_cls: type | None = None) -> Graph:
    """The graph of a record."""
    graph, result = Graph(tracer_cls=tracer_cls), []
    for op, name, target, args, kwargs, kind, meta in record.nodes:
        found: str | Callable = target.find() if isinstance(target, NamedFunction) else target
        args, kwargs = (_rebuild_arguments(a, result) for a in (args, kwargs))
        node = graph.create_node(op, found, args, kwargs, name, kind)
        node.meta.update(meta)
        result.append(node)
    graph._codegen, graph._co_fields = record.codegen, record.co_fields
    return graph


def _rebuild_arguments(a: Any, result: list[Node]) -> Any:
    if isinstance(a, NodeAt):
        return result[a.number]
    if isinstance(a, NamedFunction):
        return a.find()
    if isinstance(a, tuple):
        parts = [_rebuild_arguments(x, result) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [_rebuild_arguments(x, result) for x in a]
    if isinstance(a, dict):
        return {k: _rebuild_arguments(v, result) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*(_rebuild_arguments(x, result) for x in (a.start, a.stop, a.step)))
    return a
