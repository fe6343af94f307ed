"""Splitting: a graph cut into submodules by a function that numbers its nodes.

Enters: a GraphModule and `split_callback(node) -> int`. Leaves: a module that calls `submod_0`, `submod_1`, ..., each
with the nodes of one number; values pass between them as arguments and results. Refuses:
numberings by which two parts need each other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import Node, map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module"]


class Partition:
    """One part: what enters and leaves by name, which parts it needs, and its graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


class _Split:
    """One split under way."""

    def __init__(
        self, m: GraphModule, keep_input_names: bool, keep_node_names: bool, qualname_map: dict[str, str] | None
    ) -> None:
        self.m = m
        self.keep_input_names, self.keep_node_names, self.qualname_map = keep_input_names, keep_node_names, qualname_map
        self.partitions: dict[str, Partition] = {}
        self.home: dict[Node, str] = {}
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.base = Graph()
        self.base_values: dict[str, Node] = {}
        self.base_attributes: dict[str, Any] = {}

    def assign(self, node: Node, name: str) -> None:
        partition = self.partitions.setdefault(name, Partition(name))
        partition.node_names.append(node.name)
        self.home[node] = name

    def note_use(self, result: Node, user: Node | None) -> None:
        """`made` is used by `user` (None: by the output)."""
        here, there = self.home.get(result), self.home.get(user) if user is not None else None
        if here == there:
            return
        if here is not None:
            self.partitions[here].outputs.setdefault(result.name)
            if there is not None:
                self.partitions[here].dependents.setdefault(there)
                self.partitions[there].dependencies.setdefault(here)
        if there is not None:
            self.partitions[there].inputs.setdefault(result.name)

    def sorted_names(self) -> list[str]:
        """Parts after those they need."""
        needs = {name: set(p.dependencies) for name, p in self.partitions.items()}
        ready = [name for name, needed in needs.items() if not needed]
        ordered: list[str] = []
        while ready:
            name = ready.pop()
            ordered.append(name)
            for dependent in self.partitions[name].dependents:
                needs[dependent].discard(name)
                if not needs[dependent]:
                    ready.append(dependent)
        if len(ordered) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return ordered

    def is_module(self, node: Node) -> bool:
        return node.op == "get_attr" and isinstance(_get_attr(self.m, node.target), Module)

    def open_inputs(self, partition: Partition) -> None:
        """Placeholders of a part; modules read as attributes come along instead."""
        nodes = [self.nodes[name] for name in partition.inputs]
        values = [n for n in nodes if not self.is_module(n)]
        for i, node in enumerate(values):
            name = node.name if self.keep_input_names else f"arg_{i}"
            self._enter(partition, node, partition.graph.placeholder(name, type_expr=node.type))
        for node in nodes:
            if self.is_module(node):
                partition.targets[node.target] = _get_attr(self.m, node.target)
                self._enter(partition, node, partition.graph.get_attr(node.target))
        partition.inputs = dict.fromkeys(n.name for n in values)

    def _enter(self, partition: Partition, node: Node, result: Node) -> None:
        result.meta = node.meta.copy()
        partition.environment[node] = result

    def copy_node(self, node: Node) -> None:
        partition = self.partitions[self.home[node]]
        target = node.target
        if node.op in ("call_module", "get_attr"):
            target = node.target.replace(".", "_")
            partition.targets[target] = _get_attr(self.m, node.target)
            if self.qualname_map is not None:
                self.qualname_map[f"{partition.submod_name}.{target}"] = node.target
        name = node.name if self.keep_node_names else None
        args, kwargs = (map_arg(a, partition.environment.__getitem__) for a in (node.args, node.kwargs))
        self._enter(partition, node, partition.graph.create_node(node.op, target, args, kwargs, name, node.type))

    def open_base(self, node: Node) -> None:
        """An input or attribute of the whole, in the graph that calls the parts."""
        if node.name in self.base_values:
            return
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            result = self.base.placeholder(
                node.name if self.keep_node_names else node.target, type_expr=node.type, default_value=default
            )
        else:
            result = self.base.get_attr(node.target)
            self.base_attributes[node.target] = _get_attr(self.m, node.target)
        result.meta = node.meta.copy()
        self.base_values[node.name] = result

    def call_part(self, partition: Partition, tuple_return: bool) -> None:
        results = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
        single = len(results) == 1 and not tuple_return
        partition.graph.output(results[0] if single else results)
        self.base_attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        call = self.base.call_module(partition.submod_name, tuple(self.base_values[name] for name in partition.inputs))
        for i, name in enumerate(partition.outputs):
            self.base_values[name] = call if single else Proxy(call)[i].node


def split_module(m: GraphModule, root_m: Module, split_callback: Callable[[Node], int],
                 qualname_map: dict[str, str] | None = None, keep_original_order: bool | None = False,
                 keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
                 partition_affix: str | None = None, tuple_return: bool = False) -> GraphModule:
    """The module cut into parts. `qualname_map` is filled with where attributes of parts come from."""
    split = _Split(m, keep_original_input_name, bool(keep_original_node_name), qualname_map)
    inner = [n for n in m.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    outer = [n for n in m.graph.nodes if n.op in ("placeholder", "get_attr")]
    for node in inner:
        number = str(split_callback(node))
        split.assign(node, number if partition_affix is None else f"{partition_affix}_{number}")
    for node in inner:
        map_arg((node.args, node.kwargs), lambda result, node=node: split.note_use(result, node))
    output = m.graph.output_node()
    map_arg(output.args[0], lambda result: split.note_use(result, None))
    as_given = list(split.partitions)
    ordered = split.sorted_names()
    for name in ordered:
        split.open_inputs(split.partitions[name])
    for node in inner:
        split.copy_node(node)
    used_whole = {n for n in outer if n.op == "placeholder" or not split.is_module(n) or output in n.users}
    for node in outer:
        if node in used_whole and not keep_original_order:
            split.open_base(node)
    for name in as_given if keep_original_order else ordered:
        for node in (split.nodes[i] for i in split.partitions[name].inputs) if keep_original_order else ():
            if node.op in ("placeholder", "get_attr"):
                for given in (n for n in outer if n.op == "placeholder"):
                    split.open_base(given)
                split.open_base(node)
        split.call_part(split.partitions[name], tuple_return)
    for node in outer:   # what only the output uses
        if node in used_whole and (node.op == "placeholder" or output in node.users):
            split.open_base(node)
    split.base.output(map_arg(output.args[0], lambda n: split.base_values[n.name]))
    result = GraphModule(split.base_attributes, split.base)
    result.meta["partition_names"] = {p.submod_name for p in split.partitions.values()}
    return result
