"""A pass: a callable from GraphModule to PassResult, with checks before and after."""

from __future__ import annotations

import abc
from typing import NamedTuple

from ....nn import Module
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module after a pass, and whether it changed."""

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """Define `call`; `requires` and `ensures` may raise if a module is not as the pass needs or leaves it."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - optional to define
        """Raise if the module is not what the pass needs."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027 - optional to define
        """Raise if the module is not what the pass promises."""
