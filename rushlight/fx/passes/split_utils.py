"""Splitting by tags: nodes with one tag become one submodule, in the order of the tags."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..proxy import Proxy
from .utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """The attribute at a path; None if there is none."""
    for layer in name.split("."):
        obj = getattr(obj, layer, None)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set the attribute at a path."""
    owner, _, last = attr.rpartition(".")
    setattr(getattr_recursive(obj, owner) if owner else obj, last, value)


@dataclass
class Component:
    """One part: its graph, and the nodes of the whole graph that enter and leave it."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


class _Splitter:
    def __init__(self, gm: GraphModule, tags: list[str]) -> None:
        self.gm = gm
        self.components = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
        self.home: dict[Node, Component] = {}
        self.copies: dict[Node, Node] = {}
        self.used_in_main: dict[Node, None] = {}

    def inside(self, comp: Component, x: Node) -> Node:
        """A node of the whole graph as `comp` sees it."""
        if x.op == "get_attr":
            if x not in comp.getattr_maps:
                comp.getattr_maps[x] = comp.graph.get_attr(x.target, type_expr=x.type)
                comp.getattr_maps[x].meta = copy.copy(x.meta)
            return comp.getattr_maps[x]
        if x.op != "placeholder" and self.home[x] is comp:
            return self.copies[x]
        if x not in comp.orig_inputs:
            comp.orig_inputs.append(x)
            placeholder = comp.graph.placeholder(x.name, type_expr=x.type)
            placeholder.meta = copy.copy(x.meta)
            comp.input_placeholders.append(placeholder)
            self.used_in_main[x] = None
        return comp.input_placeholders[comp.orig_inputs.index(x)]

    def add(self, node: Node) -> None:
        """Copy a node into the component of its tag."""
        assert hasattr(node, "tag"), f"Node does not have tag: {node.format_node()}"
        comp = self.home[node] = self.components[node.tag]
        latest = max((self.home[x].order for x in node.all_input_nodes if x in self.home), default=0)
        assert (
            comp.order >= latest
        ), f"component {comp.name} has order={comp.order}, before max={latest}, a component that it reads from"
        result = comp.graph.node_copy(node, lambda x: self.inside(comp, x))
        result.tag = node.tag
        self.copies[node] = result


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type = GraphModule,  # noqa: N803
) -> Any:
    """A module with one submodule per tag; every node must have its tag in `node.tag`."""
    splitter, main, values = _Splitter(gm, tags), Graph(), {}
    output = gm.graph.output_node()
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = main.placeholder(node.name, type_expr=node.type)
            values[node].meta = copy.copy(node.meta)
        elif node.op not in ("get_attr", "output"):
            splitter.add(node)
    for x in output.all_input_nodes:
        if x.op == "get_attr":
            values[x] = main.get_attr(x.name, type_expr=x.type)
        else:
            splitter.used_in_main[x] = None
    for x in splitter.used_in_main:
        if x.op != "placeholder":
            splitter.home[x].orig_outputs.append(x)
    mapping: dict[str, str] = {}
    for comp in splitter.components.values():
        mapping.update(_call_component(gm, comp, splitter, main, values, return_tuple))
    main.output(map_arg(output.args[0], values.__getitem__))
    main._codegen = gm.graph._codegen
    root: Module = HolderModule({comp.name: comp.gm for comp in splitter.components.values()})
    for x in output.all_input_nodes:
        if x.op == "get_attr":
            setattr(root, x.name, getattr_recursive(gm, x.target))
    result = GraphModuleCls(root, main)
    return (result, mapping) if return_fqn_mapping else result


def _call_component(
    gm: GraphModule, comp: Component, splitter: _Splitter, main: Graph, values: dict[Node, Node], return_tuple: bool
) -> dict[str, str]:
    results = tuple(splitter.copies[x] for x in comp.orig_outputs)
    single = len(results) == 1 and not return_tuple
    comp.graph.output(results[0] if single else results)
    comp.gm, mapping = lift_subgraph_as_module(gm, subgraph=comp.graph, comp_name=comp.name)
    call = main.call_module(comp.name, tuple(values[x] for x in comp.orig_inputs))
    for i, x in enumerate(comp.orig_outputs):
        values[x] = call if single else Proxy(call)[i].node
    return mapping
