"""`torch._inductor.pattern_matcher`: patterns of calls, found in graphs.

Enters: patterns (`CallFunction` of functions and of patterns for their arguments; `Arg` is anything, `KeywordArg`
anything under a name). Leaves: a `Match` of a node: the nodes that the pattern's calls are, and what was found under
names; or a `FailedMatch` that says why not, which is false. A name that stands twice must be the same thing both times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..fx.node import Node

__all__ = ["Arg", "CallFunction", "FailedMatch", "KeywordArg", "Match", "PatternMatcherPass", "filter_nodes"]
MULTIPLE = object()      # for `_users`: any number of them


def filter_nodes(nodes: Iterable[Node], fn: Any) -> list[Node]:
    """The nodes that call a function; of an op, any of its overloads."""
    wanted = {fn, *(getattr(fn, name) for name in fn.overloads())} if hasattr(fn, "overloads") else {fn}
    return [node for node in nodes if node.target in wanted]


class FailedMatch(RuntimeError):
    """Why a node is not what the pattern says."""

    def __bool__(self) -> bool:
        return False


class Match:
    """What a pattern found."""

    def __init__(self, pattern: Any, nodes: Sequence[Node] = (), args: Sequence[Any] = (),
                 kwargs: dict[str, Any] | None = None) -> None:
        self.pattern, self.nodes, self.args, self.kwargs = pattern, list(nodes), list(args), dict(kwargs or {})

    @property
    def graph(self) -> Any:
        return self.nodes[0].graph

    def output_node(self) -> Node:
        """The last call."""
        return self.nodes[-1]

    def erase_nodes(self) -> None:
        """Remove the calls from the graph: those that nothing uses any more, last first."""
        for node in reversed(self.nodes):
            if not node.users and not node._erased:
                node.graph.erase_node(node)

    def extend(self, other: Match) -> FailedMatch | None:
        """Take in what another pattern found."""
        for name, value in other.kwargs.items():
            if name in self.kwargs and self.kwargs[name] != value:
                return FailedMatch(f"{name} is both {self.kwargs[name]} and {value}")
        self.kwargs.update(other.kwargs)
        self.args += other.args
        self.nodes += [node for node in other.nodes if node not in self.nodes]
        return None


class Arg:
    """Anything; it becomes a positional argument of handlers."""

    def match(self, value: Any) -> Match | FailedMatch:
        return Match(self, args=[value])


class KeywordArg:
    """Anything, under a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def match(self, value: Any) -> Match | FailedMatch:
        return Match(self, kwargs={self.name: value})


class CallFunction:
    """A call of one of some functions, whose arguments are patterns or equal to what is given. `_users` is how many
    nodes use its result."""

    def __init__(self, fns: Any, *args: Any, _users: Any = 1, **kwargs: Any) -> None:
        self.fns = list(fns) if isinstance(fns, (list, tuple)) else [fns]
        self.args, self.kwargs, self.users = args, kwargs, _users

    def match(self, node: Any) -> Match | FailedMatch:
        """What the pattern finds at a node."""
        if not isinstance(node, Node) or node.op != "call_function" or node.target not in self.fns:
            return FailedMatch(f"{node} is no call of {self.fns}")
        if self.users is not MULTIPLE and len(node.users) != self.users:
            return FailedMatch(f"{node} has {len(node.users)} users, not {self.users}")
        if len(node.args) != len(self.args) or set(node.kwargs) != set(self.kwargs):
            return FailedMatch(f"{node} has other arguments")
        found = Match(self)
        given = [*node.args, *(node.kwargs[name] for name in self.kwargs)]
        for pattern, value in zip((*self.args, *self.kwargs.values()), given, strict=True):
            failed = self._take(found, pattern, value)
            if failed is not None:
                return failed
        found.nodes.append(node)
        return found

    def _take(self, found: Match, pattern: Any, value: Any) -> FailedMatch | None:
        if hasattr(pattern, "match"):
            inner = pattern.match(value)
            return found.extend(inner) if isinstance(inner, Match) else inner
        return None if pattern == value else FailedMatch(f"{value} is not {pattern}")


class PatternMatcherPass:
    """Patterns with their handlers, tried at every node, last nodes first."""

    def __init__(self) -> None:
        self.entries: list[tuple[CallFunction, Callable[[Match], bool], Callable]] = []

    def register(self, pattern: CallFunction, extra_check: Callable[[Match], bool] = lambda match: True) -> Callable:
        """Decorator: the function changes the graph where the pattern is found. It is called with the match, and what
        was found as arguments."""

        def decorate(handler: Callable) -> Callable:
            self.entries.append((pattern, extra_check, handler))
            return handler

        return decorate

    def apply(self, graph: Any) -> int:
        """Change a graph; how many matches were handled."""
        count = 0
        for node in reversed(list(graph.nodes)):
            for pattern, check, handler in () if node._erased else self.entries:
                match = pattern.match(node)
                if isinstance(match, Match) and check(match):
                    handler(match, *match.args, **match.kwargs)
                    count += 1
                    break
        return count
