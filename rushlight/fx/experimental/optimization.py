"""Inference rewrites of traced models: batch norms folded into convolutions and linears, dropouts removed.

Enters: a model in eval mode that can be traced. Leaves: a GraphModule that computes the same with fewer calls.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["extract_subgraph", "fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

_PATTERNS = ((nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval), (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
             (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
             (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval))


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the last type on the result of one of the first."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    pairs = zip(pattern, (node.args[0], node), strict=True)
    return all(n.op == "call_module" and n.target in modules and type(modules[n.target]) is kind for kind, n in pairs)


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Let a node call another module."""
    modules[node.target] = new_module
    owner, _, name = node.target.rpartition(".")
    setattr(modules[owner], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Batch norms after convolutions and linears folded into them."""
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for first, second, fold in _PATTERNS:
        for node in traced.graph.nodes:
            # its value is used without the norm, too
            if not matches_module_pattern((first, second), node, modules) or len(node.args[0].users) > 1:
                continue
            norm = modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fold(modules[node.args[0].target], norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    return traced


class _WithoutDropout(Tracer):
    def call_module(self, m: nn.Module, forward: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return args[0] if isinstance(m, nn.Dropout) else super().call_module(m, forward, args, kwargs)


def remove_dropout(model: nn.Module) -> nn.Module:
    """The model without its Dropout modules."""
    tracer = _WithoutDropout()
    return GraphModule(model, tracer.trace(model), type(model).__name__)


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Some nodes of a graph as a module of their own."""
    graph, values = Graph(), {}
    for node in inputs:
        values[node] = graph.placeholder(node.name)
    for node in nodes:
        values[node] = graph.node_copy(node, values.__getitem__)
    graph.output([values[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)
