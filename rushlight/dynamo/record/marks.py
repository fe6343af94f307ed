"""What programs told capture about functions, and where a break is an error.

Enters: marks from `compiler.decorators`. Leaves: what the interpreter asks before it looks into a function. Nothing
of the machinery is loaded for it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

# How a call of a marked function is captured.
GRAPH_BREAK = "graph break"            # the graph ends before it
SKIP_FRAME = "skip frame"              # the frame that calls it runs as it is
IN_GRAPH = "in graph"                  # one node, run on fakes, not looked into
NONSTRICT = "nonstrict"                # the same, for functions of nested arguments that find tensors elsewhere too
CONSTANT = "constant"                  # its result now is its result always
FORBIDDEN = "forbidden"                # an error

_weak: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_strong: dict[Any, str] = {}           # built-in functions, to which there are no weak references
substitutes: dict[Any, Callable] = {}  # functions that are captured in the place of others
identities: tuple[type, ...] = ()      # classes of ours whose objects never change: a graph is made for one of them
values: tuple[type, ...] = ()          # the same, and equal ones are as good


def stands_for_itself(kind: type, is_value: bool = False) -> None:
    """Objects of a class are constants of graphs."""
    global identities, values  # noqa: PLW0603 - told once per class, when it is made
    if is_value:
        values += (kind,)
    else:
        identities += (kind,)


def mark(function: Any, what: str) -> None:
    """Remember what was said about a function."""
    function = getattr(function, "__func__", function)
    try:
        _weak[function] = what
    except TypeError:
        _strong[function] = what


def of(function: Any) -> str | None:
    """What was said about a function."""
    if not _weak and not _strong:
        return None
    try:
        return _weak.get(function) or _strong.get(function)
    except TypeError:      # cannot be hashed, or referred to weakly
        try:
            return _strong.get(function)
        except TypeError:
            return None


class _Here(threading.local):
    error_on_break: bool | None = None      # None: as compile() was told
    only_compiled = False                   # nothing new is compiled


here = _Here()
recompile_contexts: list[Any] = []      # functions that say more where something is compiled again


class Stance:
    """What compiled functions do now (`set_stance`), and the backend that is forced on them, if one is."""

    name = "default"
    backend: Callable[[Any, list[Any]], Callable] | None = None


stance = Stance()


class ErrorOnBreak:
    """`error_on_graph_break(...)`: inside, whether a break is an error. The interpreter has rules for both methods."""

    def __init__(self, error: bool) -> None:
        if not isinstance(error, bool):
            raise TypeError(f"error_on_graph_break: expected a bool, got {type(error).__name__}")
        self.error = error
        self.before: list[bool | None] = []

    def __enter__(self) -> ErrorOnBreak:
        self.before.append(here.error_on_break)
        here.error_on_break = self.error
        return self

    def __exit__(self, *exc: object) -> None:
        here.error_on_break = self.before.pop()


def decided(condition: Any) -> Any:
    """A truth that is a tensor, and that captured programs may be made for: the interpreter has a rule, which answers
    with the truth itself where whole numbers of one element decide it. Elsewhere it stays what it is."""
    return condition
