"""Graph modules whose Python is generated when it is first run or looked at:
a graph that a compiler takes never needs any.

Enters: what a GraphModule is made of. Leaves: a GraphModule; `recompile` only notes that the code is out of date.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .graph_module import GraphModule

_GENERATED = ("_code", "_lineno_map", "_prologue_start")
_state = {"lazy": False}
_generating = threading.RLock()      # a graph may have others inside


class _Pending:
    """An attribute that the generated code has: it is made when it is first read, and then stands in this place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, gm: _LazyGraphModule | None, kind: type | None = None) -> Any:
        if gm is None:
            return self
        if not gm.__dict__.get("_is_pending"):
            raise AttributeError(f"{type(gm).__name__} has no {self.name}: its code was not generated")
        gm.real_recompile()
        return getattr(gm, self.name)


class _LazyGraphModule(GraphModule):
    """A GraphModule that is compiled when first needed."""

    _code, _lineno_map, _prologue_start = (_Pending(name) for name in _GENERATED)

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> _LazyGraphModule:
        return gm if isinstance(gm, cls) else cls(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: Any) -> None:
        """Generate the code now, if it is not up to date."""
        if isinstance(gm, _LazyGraphModule):
            gm.real_recompile()

    def recompile(self) -> Any:
        """Note that the graph has changed."""
        self.__dict__["_is_pending"] = True
        for name in _GENERATED:
            self.__dict__.pop(name, None)
        type(self).forward = _FORWARD

    def real_recompile(self) -> None:
        """Generate forward from the graph, if it is not up to date."""
        if self.__dict__.get("_is_pending"):
            with _generating:      # another thread may be at it: its code is awaited
                if self.__dict__.get("_is_pending"):
                    super().recompile()
                    self.__dict__["_is_pending"] = False
                    for child in self.children():
                        self.force_recompile(child)


_FORWARD: Any = _Pending("forward")


def _make_graph_module(*args: Any, graph_module_cls: type | None = None, **kwargs: Any) -> GraphModule:
    return (graph_module_cls or (_LazyGraphModule if _state["lazy"] else GraphModule))(*args, **kwargs)


@contextlib.contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """Inside, `_make_graph_module` makes lazy ones, or does not."""
    before, _state["lazy"] = _state["lazy"], should_use
    try:
        yield
    finally:
        _state["lazy"] = before
