"""Regions of a program: runs of nodes that it called in another mode than its own: without gradients, or in mixed
precision.

Enters: a graph, and the modes that each node was recorded in. Leaves: the same graph, each such run a graph of its own
that `wrap_with_set_grad_enabled` or `wrap_with_autocast` calls: a program that is trained again has no gradients there
either, and casts are those of the device and the ops that it runs with.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .._higher_order_ops.wrap import wrap_with_autocast, wrap_with_set_grad_enabled
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module

Cast = tuple[str, Any, bool, bool]      # device, type, whether on, whether casts are kept: what a region is told


def wrap_regions(root: Module, graph: Graph, grads: Mapping[Node, bool], casts: Mapping[Node, Cast | None],
                 ambient: tuple[bool, Cast | None]) -> None:
    """Make graphs of the runs of nodes that are not of the ambient modes: mixed precision innermost."""
    grad, cast = ambient
    modes = dict(grads)

    def cast_of(node: Node) -> Any:
        own = casts.get(node, cast)
        return None if own == cast or own is None else (own, modes.get(node, grad))

    for run in _runs(graph, cast_of):
        settings, inner = cast_of(run[0])
        modes.update(dict.fromkeys(_wrap(root, graph, run, wrap_with_autocast, settings), inner))
    for run in _runs(graph, lambda node: None if modes.get(node, grad) is grad else (not grad,)):
        _wrap(root, graph, run, wrap_with_set_grad_enabled, (not grad,))


def _runs(graph: Graph, mode_of: Callable[[Node], Any]) -> list[list[Node]]:
    """Runs of nodes of one mode that call anything."""
    runs: list[list[Node]] = []
    before = None
    for node in graph.nodes:
        mode = mode_of(node) if node.op in ("call_function", "get_attr") else None
        if mode is not None and mode == before:
            runs[-1].append(node)
        elif mode is not None:
            runs.append([node])
        before = mode
    return [run for run in runs if any(n.op == "call_function" and n.target is not operator.getitem for n in run)]


def _wrap(root: Module, graph: Graph, run: list[Node], op: Any, settings: tuple) -> list[Node]:
    """One call of `op` in the place of a run; the nodes of it."""
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
    return _call(graph, run, name, op, settings, given, needed)


def _call(graph: Graph, run: list[Node], name: str, op: Any, settings: tuple, given: list[Node],
          needed: list[Node]) -> list[Node]:
    stack = _shared_stack(run)
    names = [n.name for n in needed]
    with graph.inserting_before(run[0]):
        function = graph.get_attr(name)
        call = graph.call_function(op, (*settings, function, *given))
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
    return [function, call, *parts]


def _shared_stack(run: list[Node]) -> Any:
    """The modules that all of the nodes were called in."""
    stacks = [list((n.meta.get("nn_module_stack") or {}).items()) for n in run]
    shared = []
    for entries in zip(*stacks, strict=False):
        if any(e != entries[0] for e in entries):
            break
        shared.append(entries[0])
    return OrderedDict(shared)
