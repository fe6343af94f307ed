"""Fusing: modules that run after each other, made into one.

Enters: a traced model. Leaves: a graph module in which every fusion pattern of the backend is one call of its fused
module, at the place of the pattern's root.
"""

from __future__ import annotations

from typing import Any

from ....fx import Graph, GraphModule, Node, map_arg
from ....nn import Module, ReLU, functional as F  # noqa: N812
from ..backend_config import BackendConfig, get_native_backend_config
from ..backend_config.utils import _get_fuser_method_in_reversed_nested_tuple_format
from ..utils import MatchAllNode, _parent_name
from .custom_config import FuseCustomConfig
from .match_utils import Match, is_match, longest_first, matched_nodes
from .utils import from_deprecated_dict

__all__ = ["fuse"]


def fuse(
    model: GraphModule, is_qat: bool, fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """The model with its patterns fused, for training if `is_qat`."""
    from_deprecated_dict(FuseCustomConfig, fuse_custom_config, "fuse")
    backend = from_deprecated_dict(BackendConfig, backend_config, "fuse") or get_native_backend_config()
    modules = dict(model.named_modules())
    found = _find_fusions(model.graph, modules, backend)
    fused = Graph()
    made: dict[Node, Node] = {}

    def new(args: Any) -> Any:
        return map_arg(args, lambda node: made[node])

    for node in model.graph.nodes:
        match = found.get(node)
        if match is None:
            made[node] = fused.node_copy(node, new)
        elif match.last is node:
            root = match.root
            _swap_in(match, root, modules, is_qat)
            made[node] = fused.node_copy(root, new)
            getter = match.config._extra_inputs_getter if match.config is not None else None
            if getter is not None:
                made[node].args = (*made[node].args, *map(new, getter(match.nodes)))
    return GraphModule(model, fused)


def _find_fusions(graph: Graph, modules: dict[str, Module], backend: BackendConfig) -> dict[Node, Match]:
    """The match of each node that is fused away; values that `MatchAllNode` stands for stay."""
    patterns = longest_first(backend, only_fusions=True)
    found: dict[Node, Match] = {}
    for node in reversed(graph.nodes):
        if node in found:
            continue
        for pattern, config in patterns:
            if is_match(modules, node, pattern):
                match = Match(node, matched_nodes(node, pattern), pattern, config)
                for inner in _fused_nodes(match.nodes, pattern):
                    found.setdefault(inner, match)
                break
    return found


def _fused_nodes(nodes: Any, pattern: Any) -> list[Node]:
    if isinstance(pattern, tuple):
        return [n for node, part in zip(nodes, pattern, strict=True) for n in _fused_nodes(node, part)]
    return [nodes] if pattern is not MatchAllNode else []


def _swap_in(match: Match, root: Node, modules: dict[str, Module], is_qat: bool) -> None:
    """Put the fused module where the root module was."""
    if root.op != "call_module":
        raise AssertionError(f"fuse: the root of a fused pattern must be a module, but {root} is a {root.op}")

    def operator_of(nodes: Any) -> Any:
        if isinstance(nodes, (tuple, list)):
            return tuple(map(operator_of, nodes))
        if nodes.op == "call_module":
            return modules[nodes.target]
        if nodes.op == "call_function" and nodes.target is F.relu:
            return ReLU().train(modules[root.target].training)
        return nodes.target if nodes.op in ("call_function", "call_method") else MatchAllNode

    assert match.config is not None
    fuser = _get_fuser_method_in_reversed_nested_tuple_format(match.config)
    owner, name = _parent_name(root.target)
    setattr(modules[owner], name, fuser(is_qat, *operator_of(match.nodes)))
