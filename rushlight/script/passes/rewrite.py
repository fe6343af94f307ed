"""Parts of graphs found by pattern and replaced.

Enters: two graphs, a pattern and what stands for it, with the same parameters and results; or their texts. Leaves: how
often the pattern was replaced. A match is exact: kinds, attributes (where the pattern has them), order of inputs; what
the pattern computes on the way may be read by nobody else. A match that would have to read what is written in between
is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..ir import Block, Graph, Node, Value, insert_graph
from ..text.graph_reader import read_graph
from .aliases import Aliases, meet
from .cse import attribute_key


class Match(NamedTuple):
    """Where a pattern was found: its last node, and what each of its nodes and values is."""

    anchor: Node
    nodes: dict[Node, Node]
    values: dict[Value, Value]


def find_matches(pattern: Graph, graph: Graph) -> list[Match]:
    """Every place where a pattern lies in a graph, blocks included. Refuses patterns with blocks of their own."""
    if any(node.blocks_ for node in pattern.nodes()):
        raise RuntimeError("find_matches: a pattern with nested blocks cannot be searched for")
    anchors = [value.node_ for value in pattern.outputs()]
    if not anchors or any(node.kind_ == "prim::Param" for node in anchors):
        raise RuntimeError("find_matches: a pattern must return what it computes")
    anchor = max(anchors, key=lambda node: node.place)
    found = []
    for node in graph.all_nodes():
        matcher = _Matcher(pattern, node.block)
        if matcher.node(anchor, node) and matcher.covers(anchors):
            found.append(Match(node, matcher.nodes, matcher.values))
    return found


class _Matcher:
    def __init__(self, pattern: Graph, block: Block | None) -> None:
        self.pattern, self.block = pattern, block
        self.results = set(pattern.outputs())
        self.nodes: dict[Node, Node] = {}
        self.values: dict[Value, Value] = {}

    def node(self, wanted: Node, found: Node) -> bool:
        if wanted in self.nodes:
            return self.nodes[wanted] is found
        if found.kind_ == "prim::Param" or (found.block is not self.block and found.kind_ != "prim::Constant"):
            return False
        if not _is_kind(wanted, found) or len(wanted.inputs_) != len(found.inputs_) or (
                len(wanted.outputs_) != len(found.outputs_)) or found.blocks_ or not _has_attributes(wanted, found):
            return False
        self.nodes[wanted] = found
        for mine, theirs in zip(wanted.outputs_, found.outputs_, strict=True):
            if not self.value(mine, theirs):
                return False
        return all(self.value(mine, theirs) for mine, theirs in zip(wanted.inputs_, found.inputs_, strict=True))

    def value(self, wanted: Value, found: Value) -> bool:
        if wanted in self.values:
            return self.values[wanted] is found
        self.values[wanted] = found
        if wanted.node_.kind_ == "prim::Param":
            return True
        if wanted not in self.results and len(wanted.uses_) != len(found.uses_):
            return False
        return self.node(wanted.node_, found.node_)

    def covers(self, anchors: list[Node]) -> bool:
        """Results besides the last one are found by what they read."""
        return all(node in self.nodes for node in anchors)


def _is_kind(wanted: Node, found: Node) -> bool:
    if wanted.kind_ == "match::module":
        held = str(found.outputs_[0].type_) if found.kind_ == "prim::GetAttr" else ""
        return bool(held) and held.rpartition(".")[2] == wanted.attributes["name"]
    return wanted.kind_ == found.kind_


def _has_attributes(wanted: Node, found: Node) -> bool:
    if wanted.kind_ == "match::module":
        return True
    if wanted.kind_ == "prim::Constant" and (wanted.outputs_[0].type_ != found.outputs_[0].type_ and not (
            wanted.attributes)):
        return False
    return all(name in found.attributes and attribute_key(found.attributes[name]) == attribute_key(value)
               for name, value in wanted.attributes.items())


Filter = Callable[[Match, dict[str, Value]], bool]


class SubgraphRewriter:
    """Patterns and what stands for each, registered in turn and applied in turn."""

    def __init__(self) -> None:
        self.patterns: list[tuple[Graph, Graph]] = []

    def register_pattern(self, pattern: str, replacement: str) -> None:
        made = read_graph(pattern), read_graph(replacement)
        for what in ("inputs", "outputs"):
            mine, theirs = (len(getattr(graph, what)()) for graph in made)
            if mine != theirs:
                raise RuntimeError(f"a pattern with {mine} {what} cannot be replaced by a graph with {theirs}")
        self.patterns.append(made)

    def run(self, graph: Graph, filters: Iterable[Filter] = ()) -> int:
        """Apply all of them; how often something was replaced."""
        return sum(_replace_all(graph, *pair, tuple(filters)) for pair in self.patterns)


def _replace_all(graph: Graph, pattern: Graph, replacement: Graph, filters: tuple[Filter, ...]) -> int:
    names = {value.name: value for value in (*pattern.inputs(), *(
        output for node in pattern.nodes() for output in node.outputs_)) if value.name}
    gone: set[Node] = set()
    stands: dict[Value, Value] = {}          # what was replaced, by what
    count = 0
    for match in find_matches(pattern, graph):
        if gone & {node for node in match.nodes.values() if node.kind_ != "prim::Constant"}:
            continue
        named = {name: match.values[value] for name, value in names.items() if value in match.values}
        if all(accepts(match, named) for accepts in filters):
            count += _replace(graph, pattern, replacement, match, gone, stands)
    for node in sorted(gone, key=_depth_last):
        if not node.has_uses():
            node.destroy()
    return count


def _depth_last(node: Node) -> tuple[int, int]:
    return (1 if node.kind_ == "prim::Constant" else 0, -node.place)


def _replace(graph: Graph, pattern: Graph, replacement: Graph, match: Match, gone: set[Node],
             stands: dict[Value, Value]) -> int:
    if any(value not in match.values for value in pattern.inputs()):
        return 0
    inputs = [stands.get(match.values[value], match.values[value]) for value in pattern.inputs()]
    results = [match.values[value] for value in pattern.outputs()]
    first_use = _first_use(results, match)
    place = match.anchor
    if (first_use is not None and first_use.is_before(place)) or not _may_move(graph, match, place):
        return 0
    with graph.inserting(place), graph.at_range(place.range):
        made = insert_graph(graph, replacement, inputs)
    for before, after in zip(results, made, strict=True):
        if after.node_.graph is graph and after not in inputs:
            after.type_ = before.type_
        before.replace_all_uses_with(after)
        stands[before] = after
    gone.update(match.nodes.values())
    return 1


def _first_use(results: list[Value], match: Match) -> Node | None:
    mine = set(match.nodes.values())
    users = [use.user for value in results for use in value.uses_ if use.user not in mine]
    first = None
    for user in users:
        if first is None or user.is_before(first):
            first = user
    return first


def _may_move(graph: Graph, match: Match, place: Node) -> bool:
    """Whether all nodes of a match may run where its last one stands."""
    nodes = [node for node in match.nodes.values() if node.kind_ != "prim::Constant"]
    first = min(nodes, key=lambda node: node.place)
    between: Any = first.next_
    mine, aliases = set(nodes), None
    while between is not None and between is not place:
        if between not in mine and (between.blocks_ or not between.kind_.startswith("prim::")):
            aliases = aliases or Aliases(graph)
            for node in nodes:
                if node.is_before(between) and (meet(aliases.written(between), aliases.may_read(node)) or meet(
                        aliases.written(node), aliases.may_read(between))):
                    return False
        between = between.next_
    return True


def rewrite(pattern: str, replacement: str, graph: Graph) -> int:
    """Replace what one text describes by what the other does."""
    rewriter = SubgraphRewriter()
    rewriter.register_pattern(pattern, replacement)
    return rewriter.run(graph)
