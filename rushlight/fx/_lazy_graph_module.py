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


class _LazyGraphModule(GraphModule):
    """A GraphModule that is compiled when first needed."""

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
        type(self).forward = _compile_and_run

    def real_recompile(self) -> None:
        """Generate forward from the graph, if it is not up to date."""
        if self.__dict__.get("_is_pending"):
            with _generating:      # another thread may be at it: its code is awaited
                if self.__dict__.get("_is_pending"):
                    super().recompile()
                    self.__dict__["_is_pending"] = False

    def __getattr__(self, name: str) -> Any:
        if name in _GENERATED and self.__dict__.get("_is_pending"):
            self.real_recompile()
            return self.__dict__[name]
        return super().__getattr__(name)


def _compile_and_run(self: _LazyGraphModule, *args: Any, **kwargs: Any) -> Any:
    self.real_recompile()
    return type(self).forward(self, *args, **kwargs)


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
