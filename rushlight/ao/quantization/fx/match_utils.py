"""The pattern matcher: which nodes of a graph are a pattern of a backend.

A pattern is a module class, a function, a method's name, `MatchAllNode`, or a tuple (operator, pattern of its first
argument, pattern of its second, ...): last to first, as values are looked back at. Operators inside a pattern have one
user each, or fusing would lose their value.

Enters: a graph, its modules, a backend's patterns. Leaves: a `Match` for each node that is part of one. Longer patterns
come first; a node is matched once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....fx import Graph, Node
from ....nn import Module
from ....nn.utils.parametrize import type_before_parametrizations
from ..backend_config.backend_config import BackendConfig, BackendPatternConfig
from ..utils import MatchAllNode

__all__: list[str] = []


@dataclass(eq=False)
class Match:
    """Nodes that are a pattern: `nodes` has the pattern's form, its first is the last to run."""

    last: Node
    nodes: list[Any]
    pattern: Any = None
    config: BackendPatternConfig | None = None      # none for modules that the user named
    is_custom: bool = False
    is_standalone: bool = False
    shares_observer: bool = False
    is_supported: bool = True

    @property
    def root(self) -> Node:
        """The node whose inputs are the pattern's."""
        if self.config is not None and self.config._root_node_getter is not None:
            return self.config._root_node_getter(self.nodes)
        found: Any = self.nodes
        while not isinstance(found, Node):
            found = found[-1]
        return found

    def all_nodes(self) -> Iterator[Node]:
        """The nodes in it, last to first."""
        return _nodes_in(self.nodes)


def _nodes_in(matched: Any) -> Iterator[Node]:
    if isinstance(matched, Node):
        yield matched
    elif isinstance(matched, (list, tuple)):
        for part in matched:
            yield from _nodes_in(part)


def pattern_length(pattern: Any) -> int:
    """How many operators a pattern has."""
    return sum(map(pattern_length, pattern)) if isinstance(pattern, tuple) else 1


def longest_first(config: BackendConfig, only_fusions: bool = False) -> list[tuple[Any, BackendPatternConfig]]:
    """A backend's patterns: tuples, the longest first, then single operators."""
    items = config._pattern_complex_format_to_config.items()
    wanted = [(p, c) for p, c in items if c.fuser_method is not None or not only_fusions]
    return sorted(wanted, key=lambda item: -pattern_length(item[0]) if isinstance(item[0], tuple) else 1)


def _is_operator(node: Node, operator: Any, modules: dict[str, Module]) -> bool:
    """Whether a node is a call of this operator."""
    if isinstance(operator, type) and issubclass(operator, Module):
        return node.op == "call_module" and type_before_parametrizations(modules[node.target]) is operator
    if isinstance(operator, str):
        return node.op == "call_method" and node.target == operator
    if callable(operator):
        return node.op == "call_function" and node.target is operator
    return node.target == operator


def is_match(modules: dict[str, Module], node: Any, pattern: Any, inner: bool = False) -> bool:
    """Whether a value of a graph is a pattern; `inner` values may have one user only."""
    operator, *arguments = pattern if isinstance(pattern, tuple) else (pattern,)
    if isinstance(operator, type) and issubclass(operator, MatchAllNode):
        return True
    if not isinstance(node, Node):
        return node == pattern
    if (inner and len(node.users) > 1) or not _is_operator(node, operator, modules):
        return False
    if operator is getattr:
        return not arguments or node.args[1] == arguments[0]
    if not arguments:
        return True
    return len(arguments) == len(node.args) and all(
        is_match(modules, arg, part, inner=True) for arg, part in zip(node.args, arguments, strict=True)
    )


def matched_nodes(node: Any, pattern: Any) -> list[Any]:
    """The nodes of a match, in the form of the pattern."""
    if not isinstance(pattern, tuple) or pattern[0] is getattr:
        return [node]
    parts = [
        tuple(matched_nodes(arg, part)) if isinstance(part, tuple) else arg
        for arg, part in zip(node.args, pattern[1:], strict=True)
    ]
    return [node, *parts]


def find_matches(
    graph: Graph, modules: dict[str, Module], patterns: list[tuple[Any, BackendPatternConfig]]
) -> dict[Node, Match]:
    """The match of each node that is in one, from the end of the graph to its beginning."""
    found: dict[Node, Match] = {}
    for node in reversed(graph.nodes):
        if node in found:
            continue
        for pattern, config in patterns:
            if is_match(modules, node, pattern):
                match = Match(node, matched_nodes(node, pattern), pattern, config)
                found.update(dict.fromkeys(match.all_nodes(), match))
                break
    return found
