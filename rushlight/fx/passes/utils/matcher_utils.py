"""Finding a small graph inside a large one.

Enters: a pattern graph, whose placeholders match anything. Leaves: matches: which node of the large graph stands for
which of the pattern. A match keeps its inner values to itself (nothing outside uses them) and can be fused without a
cycle. Refuses: empty patterns, and patterns with nodes that nothing uses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...._C import Overload, Tensor
from ....aten.overloads import AtenOverload, AtenSchema
from ...graph import Graph
from ...graph_module import _get_attr
from ...node import Node
from .fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One occurrence: anchors of the pattern, nodes by pattern node, and what enters and leaves."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors,
            dict(self.nodes_map),
            list(self.placeholder_nodes),
            list(self.returning_nodes),
            dict(self.name_node_map),
        )


class SubgraphMatcher:
    """Searches graphs for one pattern."""

    def __init__(self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher: the pattern is empty")
        for node in pattern.nodes:
            assert (
                node.op in ("output", "placeholder") or node.users or node.is_impure()
            ), "SubgraphMatcher: the pattern holds dead code"
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        # A result that another result is made of is reached from that one.
        self.pattern_anchors = [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]

    # --- one node against another -------------------------------------------------------------------------------------

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        ours, theirs = (_get_attr(n.graph.owning_module, n.target) for n in (pn, gn))
        if type(ours) is not type(theirs):
            return False
        if not isinstance(ours, Tensor):
            raise RuntimeError(f"Unsupported type {ours} when matching attributes")
        return True

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        """A placeholder stands for a literal as well as for a node."""
        if isinstance(pn, Node):
            return pn.op == "placeholder" and match.nodes_map.setdefault(pn, gn) == gn
        return not isinstance(gn, Node) and type(gn) is type(pn) and gn == pn

    def _match_args(self, ours: Any, theirs: Any, match: InternalMatch) -> bool:
        if len(ours) != len(theirs):
            return False
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(a, Node) and isinstance(b, Node):
                same = self._match_nodes(a, b, match)
            elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
                same = self._match_args(a, b, match)
            else:
                same = self._match_literals(a, b, match) or self.ignore_literals
            if not same:
                return False
        return True

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        """Extend a match by a pair of nodes and all they are made of. On failure the match is of no further use."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if any(gn is taken for taken in match.nodes_map.values()) or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs):
            return self._match_args([*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()], match)
        if pn.op == "call_function" and isinstance(pn.target, (Overload, AtenOverload)):
            return self._match_args(_all_arguments(pn), _all_arguments(gn), match)
        return False

    # --- the whole graph ----------------------------------------------------------------------------------------------

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Every occurrence, those that overlap an earlier one left out if so configured."""
        candidates = [
            (anchor, [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        candidates = [(anchor, found) for anchor, found in candidates if found]
        found = (
            list(self._extend(InternalMatch(self.pattern_anchors), candidates, node_name_match)) if candidates else []
        )
        found = [m for m in found if self._is_contained(m.nodes_map) and validate_partition(_inner_nodes(m))]
        return self._without_overlaps(found) if self.remove_overlapping_matches else found

    def _extend(
        self, match: InternalMatch, candidates: list[tuple[Node, list[Node]]], node_name_match: str
    ) -> Iterator[InternalMatch]:
        """Matches of all anchors, by trying each candidate of the first and going on."""
        if not candidates:
            if all(pn in match.nodes_map for pn in (*self.pattern_placeholder_nodes, *self.pattern_returning_nodes)):
                match.placeholder_nodes = [match.nodes_map[pn] for pn in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
                yield match
            return
        (anchor, nodes), *rest = candidates
        for node in nodes:
            attempt = copy.copy(match)
            if self._match_nodes(anchor, node, attempt, node_name_match):
                yield from self._extend(attempt, rest, node_name_match)

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether only results are used outside of the match."""
        inside = {gn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(
            user in inside
            for pn, gn in nodes_map.items()
            if pn.op != "placeholder" and pn not in self.pattern_returning_nodes
            for user in gn.users
        )

    def _without_overlaps(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept, taken = [], set()
        for match in matches:
            nodes = set(_inner_nodes(match))
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept


def _inner_nodes(match: InternalMatch) -> list[Node]:
    return [gn for pn, gn in match.nodes_map.items() if pn.op not in ("placeholder", "output")]


def _all_arguments(node: Node) -> list[Any]:
    """An overload's arguments in the order of its schema, defaults filled in."""
    schema = node.target._schema
    if isinstance(schema, AtenSchema):
        params = [(a.name, a.kwarg_only, a.default_value) for a in schema.arguments]
    else:
        params = [(p.name, p.keyword_only, p.default) for p in schema.params]
    return [
        node.kwargs[name] if name in node.kwargs else node.args[i] if i < len(node.args) and not is_named else default
        for i, (name, is_named, default) in enumerate(params)
    ]
