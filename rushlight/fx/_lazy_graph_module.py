"""Graph modules that compile late, in PyTorch. Here compiling a graph is quick, so these names make plain ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .graph_module import GraphModule


class _LazyGraphModule(GraphModule):
    """A GraphModule. It is always compiled."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> _LazyGraphModule:
        return gm if isinstance(gm, cls) else cls(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: Any) -> None:
        """Nothing waits to be compiled."""

    def real_recompile(self) -> None:
        self.recompile()


def _make_graph_module(*args: Any, graph_module_cls: type | None = None, **kwargs: Any) -> GraphModule:
    return (graph_module_cls or GraphModule)(*args, **kwargs)


def _use_lazy_graph_module(should_use: bool) -> contextlib.AbstractContextManager[None]:
    return _nothing()


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield
