"""Graphs of Dynamo's as data: named by it, and put together again from it.

Enters: a graph of calls of our ops and of Python's own operators. Leaves: what JSON holds, the same in every process
for the same graph: nodes by their numbers, functions by their names (op/stored.py); and the other way round, a graph.
Refuses (`NotKept`): graphs that hold anything of the program's own.
"""

from __future__ import annotations

import functools
from typing import Any

from ...base.codec import Codec
from ...base.disk_cache import NotKept
from ...op.stored import NAMED


def _codec(nodes: list[Any]) -> Codec:
    """What arguments are described with: nodes by their places in a list; fx has lists and dicts of its own."""
    from ...fx.node import Node  # noqa: PLC0415 - graphs that are found on disk need none of it

    numbers = {node: k for k, node in enumerate(nodes)}
    codec = Codec(NAMED)
    codec.add(Node, "node", lambda node: (numbers[node],), nodes.__getitem__)
    codec.derived.update({kind: codec.exact[kind] for kind in (list, tuple, dict)})
    return codec


def described(gm: Any) -> list[Any]:
    """The nodes of a graph."""
    if isinstance(gm, StoredModule):
        return gm.data
    codec = _codec(list(gm.graph.nodes))
    found: list[Any] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            found.append(["input"])
        elif node.op == "output":
            found.append(["output", codec.described(node.args[0])])
        elif node.op == "call_function":
            found.append(["call", *map(codec.described, (node.target, node.args, node.kwargs))])
        else:
            raise NotKept(f"the graph holds {node.target} ({node.op})")
    return found


# --- back -------------------------------------------------------------------------------------------------------------


class StoredModule:
    """A graph that another process captured: put together when it is asked for, which most programs never do."""

    def __init__(self, data: list[Any], meta: dict[str, Any]) -> None:
        self.data, self.meta = data, meta

    @functools.cached_property
    def module(self) -> Any:
        from ...fx.graph import Graph  # noqa: PLC0415 - as above
        from ...fx.graph_module import GraphModule  # noqa: PLC0415
        from ...nn import Module  # noqa: PLC0415

        graph = Graph()
        nodes: list[Any] = []
        codec = _codec(nodes)
        for k, (kind, *rest) in enumerate(self.data):
            if kind == "input":
                nodes.append(graph.placeholder(f"arg{k}"))
            elif kind == "output":
                nodes.append(graph.output(*map(codec.restored, rest)))
            else:
                nodes.append(graph.call_function(*map(codec.restored, rest)))
        module = GraphModule(Module(), graph)
        module.meta.update(self.meta)
        return module

    def forward(self, *args: Any) -> Any:
        return self.module.forward(*args)
