"""Functions whose graphs are there from the beginning: made by hand, by a pass, or by a trace."""

from __future__ import annotations

from typing import Any

from . import types as t
from .classes import ClassType
from .ir import Graph
from .schemas import Argument, Schema
from .unit import Function
from .values import leaving


class NoSource:
    """What stands for the source of a function that has none."""

    function = None

    def __init__(self, name: str) -> None:
        self.name = name


class GraphFunction(Function):
    """A function or method from its graph; `schema` where it has a signature already."""

    def __init__(self, unit: Any, name: str, graph: Graph, owner: ClassType | None = None,
                 schema: Schema | None = None) -> None:
        super().__init__(unit, name, NoSource(name.rpartition(".")[2]), owner)  # type: ignore[arg-type]
        self._graph, self._schema = graph, schema or schema_for(self.name, graph)
        self._leaving = leaving(self._schema.return_type())


def schema_for(name: str, graph: Graph) -> Schema:
    """The signature that a graph has by itself: names of its inputs, types without shapes."""
    arguments = []
    for at, value in enumerate(graph.inputs()):
        base, dot, last = value.name.rpartition(".")
        own = (base if dot and last.isdigit() else value.name) if value.has_name() else f"argument_{at}"
        arguments.append(Argument(own, t.plain(value.type_)))
    return Schema(name, "", tuple(arguments), tuple(Argument("", t.plain(v.type_)) for v in graph.outputs()))
