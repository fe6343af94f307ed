"""Regions without gradients: runs of nodes that the program called in another grad mode than its own.

Enters: a graph, and the grad mode that each node was recorded in. Leaves: the same graph, each such run a graph of its
own that `wrap_with_set_grad_enabled` calls, so that a program that is trained again has no gradients there either.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from .._higher_order_ops.wrap import wrap_with_set_grad_enabled
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module


def wrap_regions(root: Module, graph: Graph, modes: Mapping[Node, bool], ambient: bool) -> None:
    """Make graphs of the runs of nodes that are not of the ambient mode."""
    run: list[Node] = []
    for node in [*graph.nodes, None]:
        if node is not None and node.op in ("call_function", "get_attr") and modes.get(node, ambient) is not ambient:
            run.append(node)
        elif run:
            if any(n.op == "call_function" and n.target is not operator.getitem for n in run):
                _wrap(root, graph, run, not ambient)
            run = []


def _wrap(root: Module, graph: Graph, run: list[Node], enabled: bool) -> None:
    inside = set(run)
    given = list(dict.fromkeys(n for node in run for n in node.all_input_nodes if n not in inside))
    needed = [n for n in run if any(u not in inside for u in n.users)]
    inner, copied, holder = Graph(), {}, Module()
    for node in given:
        copied[node] = inner.placeholder(node.name)
        copied[node].meta = dict(node.meta)
    for node in run:
        copied[node] = inner.node_copy(node, copied.__getitem__)
        if node.op == "get_attr":
            setattr(holder, node.target, getattr(root, node.target))
    inner.output(tuple(copied[n] for n in needed))
    name = f"submod_{1 + sum(key.startswith('submod_') for key in root._modules)}"
    setattr(root, name, GraphModule(holder, inner, name))
    _call(graph, run, name, enabled, given, needed)


def _call(graph: Graph, run: list[Node], name: str, enabled: bool, given: list[Node], needed: list[Node]) -> None:
    """One node in the place of many."""
    stack = _shared_stack(run)
    names = [n.name for n in needed]
    with graph.inserting_before(run[0]):
        function = graph.get_attr(name)
        call = graph.call_function(wrap_with_set_grad_enabled, (enabled, function, *given))
        call.meta = {"val": tuple(n.meta.get("val") for n in needed), "nn_module_stack": stack}
        function.meta = {"nn_module_stack": stack}
        parts = []
        for i, node in enumerate(needed):
            part = graph.call_function(operator.getitem, (call, i))
            part.meta = {**node.meta, "nn_module_stack": stack}
            node.replace_all_uses_with(part)
            parts.append(part)
    for node in reversed(run):
        graph.erase_node(node)
    for part, own in zip(parts, names, strict=True):
        part.name = own


def _shared_stack(run: list[Node]) -> Any:
    """The modules that all of the nodes were called in."""
    stacks = [list((n.meta.get("nn_module_stack") or {}).items()) for n in run]
    shared = []
    for entries in zip(*stacks, strict=False):
        if any(e != entries[0] for e in entries):
            break
        shared.append(entries[0])
    return OrderedDict(shared)
