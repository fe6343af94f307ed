"""Rewriting: every occurrence of a pattern replaced by another subgraph.

Enters: a GraphModule, and pattern and replacement as functions, graphs or GraphModules with as many inputs and results.
Leaves: the module changed in place and recompiled, and the matches. Matches that overlap an earlier one stay. Refuses:
replacements that name attributes nobody has.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr, _get_attr, _has_attr
from .node import Node

if TYPE_CHECKING:
    from .passes.utils.matcher_utils import InternalMatch

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """An occurrence: where it was found, and the node for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same, with the nodes put in its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def _as_graph(source: Callable | Graph | GraphModule) -> Graph:
    if isinstance(source, GraphModule):
        return source.graph
    return source if isinstance(source, Graph) else symbolic_trace(source).graph


def replace_pattern(
    gm: GraphModule, pattern: Callable | GraphModule, replacement: Callable | GraphModule
) -> list[Match]:
    """Replace all occurrences of `pattern` in `gm`, in place."""
    return [Match(done.anchor, done.nodes_map) for done in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(gm: GraphModule, pattern: Callable | Graph | GraphModule,
                                 replacement: Callable | Graph | GraphModule | None = None,
                                 match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
                                 ignore_literals: bool = False,
                                 replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
                                 node_name_match: str = "") -> list[ReplacedPatterns]:
    """As `replace_pattern`, only where all filters agree;
    with `replacement_callback` each match can get a replacement of its own."""
    from .passes.utils.matcher_utils import SubgraphMatcher

    wanted = _as_graph(pattern)
    shared = None if replacement is None else _as_graph(replacement)
    assert shared is not None or replacement_callback is not None, "give a replacement or a replacement_callback"
    matches = SubgraphMatcher(wanted, ignore_literals=ignore_literals).match(gm.graph, node_name_match=node_name_match)
    matches = [m for m in matches if all(accepts(m, gm.graph, wanted) for accepts in match_filters or ())]
    replaced: dict[Node, Node] = {}     # results of earlier matches may be inputs of later ones
    done = []
    for match in matches:
        graph = shared if replacement_callback is None else replacement_callback(match, gm.graph, wanted)
        done.append(_replace_one(gm, wanted, match, graph, replaced))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_over_attributes(gm, replacement)
    return done


def _replace_one(
    gm: GraphModule, pattern: Graph, match: InternalMatch, replacement: Graph, replaced: dict[Node, Node]
) -> ReplacedPatterns:
    graph = gm.graph
    inputs = replacement.find_nodes(op="placeholder")
    assert len(inputs) == len(
        match.placeholder_nodes
    ), f"the pattern has {len(match.placeholder_nodes)} inputs, its replacement {len(inputs)}"
    match.placeholder_nodes = [replaced.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    match.nodes_map.update(
        {p: replaced[n] for p, n in match.nodes_map.items() if isinstance(n, Node) and n in replaced}
    )
    values = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_first_after(graph, match.returning_nodes)):
        results = graph.graph_copy(replacement, values)
    results = (results,) if isinstance(results, Node) else tuple(results)
    assert len(results) == len(
        match.returning_nodes
    ), f"the pattern has {len(match.returning_nodes)} results, its replacement {len(results)}"
    result = [n for n in values.values() if not any(n is given for given in match.placeholder_nodes)]
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        replaced[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, result)


def _first_after(graph: Graph, results: list[Node]) -> Node:
    """The place for new nodes: before the first user of a result, or after the last result."""
    users = [user for node in results for user in node.users]
    return min(users) if users else max(results).next


def _take_over_attributes(gm: GraphModule, replacement: Module) -> None:
    """What the new nodes name comes along, as a copy."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _has_attr(gm, node.target):
            continue
        if not _has_attr(replacement, node.target):
            raise RuntimeError(f'the replacement uses {node.target} in a "{node.op}" node, but has no attribute of '
                               "that name")
        value: Any = copy.deepcopy(_get_attr(replacement, node.target))
        if isinstance(value, Module):
            gm.add_submodule(node.target, value)
        else:
            _assign_attr(value, gm, node.target)
    gm.graph.lint()
