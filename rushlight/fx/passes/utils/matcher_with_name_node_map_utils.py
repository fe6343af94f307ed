"""Patterns that name their nodes: matches say which node each name is.

Enters: a pattern that returns `(..., {"name": node})`. Leaves: matches whose `name_node_map` has the nodes of the
searched graph under these names. Refuses: patterns that return no such dict last.
"""

from __future__ import annotations

from typing import Any

from ....utils import _pytree as pytree
from ...graph import Graph
from .matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcherWithNameNodeMap"]


def _taken_off(gm: Any) -> dict[str, Any]:
    """The dict that a pattern returns last, which it returns no more."""
    output = gm.graph.output_node()
    spec = getattr(gm, "_out_spec", None) or gm.graph._codegen.pytree_info.out_spec
    found = pytree.tree_unflatten(output.args[0], spec)
    if not isinstance(found, tuple) or len(found) < 2 or not isinstance(found[-1], dict):
        raise AssertionError(f"a pattern must return a tuple that ends in a dict of nodes, got {type(found).__name__}")
    *rest, names = found
    flat, out_spec = pytree.tree_flatten(rest)
    output.args = (flat,)
    info = gm.graph._codegen.pytree_info
    gm.graph._codegen.pytree_info = type(info)(info.orig_args, info.in_spec, out_spec)
    gm.recompile()
    return names


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Searches graphs for a pattern (a graph module, which is changed)."""

    def __init__(self, pattern_gm: Any, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        self.name_node_map = _taken_off(pattern_gm)
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All matches, with the nodes under the pattern's names."""
        matches = super().match(graph, node_name_match)
        for one in matches:
            one.name_node_map.update({name: one.nodes_map[node] for name, node in self.name_node_map.items()})
        return matches
