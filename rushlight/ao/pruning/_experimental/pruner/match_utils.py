"""Chains of modules and functions found in a traced model."""

from __future__ import annotations

from typing import Any

from .....fx import Node
from .....nn import Module
from .....nn.utils import parametrize


class MatchAllNode:
    """A step of a pattern that any node fits."""


def _match(modules: dict[str, Module], node: Any, current: Any) -> bool:
    """Whether a node is what a step of a pattern says: a module class, a function, the name of a target."""
    classes = current.__mro__ if isinstance(current, type) else ()
    if MatchAllNode in classes or not isinstance(node, Node):
        return MatchAllNode in classes
    if isinstance(current, str):
        return node.target == current
    if Module not in classes:
        return callable(current) and node.target is current and node.op == "call_function"
    if node.op != "call_module":
        return False
    return parametrize.type_before_parametrizations(modules[str(node.target)]) is current


def apply_match(
    modules: dict[str, Module], pattern: Any, node: Node, matched_node_pattern: list[Node]
) -> list[Node] | None:
    """The nodes of a pattern from `node` on, each the first user of the one before; None when they do not fit."""
    if not isinstance(pattern, tuple):
        return [node] if _match(modules, node, pattern) else None
    found = list(matched_node_pattern)
    for number, step in enumerate(pattern):
        if number:
            users = list(found[-1].users)
            if not users:
                return None
            node = users[0]
        if not _match(modules, node, step):
            return None
        found.append(node)
    return found
