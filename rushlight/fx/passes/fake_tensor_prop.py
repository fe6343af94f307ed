"""Fake values through a graph: every node gets `meta["val"]`, without memory or work.

Enters: a GraphModule and real or fake arguments. Leaves: a fake tensor (or the plain value) on every node.
"""

from __future__ import annotations

import copy
from typing import Any

from ..._C import Tensor
from ...fake import FakeTensor, FakeTensorMode
from ...nn import Module
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["FakeTensorProp", "fake_copy"]


def fake_copy(module: Module, mode: FakeTensorMode) -> Module:
    """A module with the same structure whose parameters and buffers are fake."""
    memo: dict[int, Any] = {}
    for owner in module.modules():
        tensors = [
            *owner._parameters.values(),
            *owner._buffers.values(),
            *(v for v in vars(owner).values() if isinstance(v, Tensor)),
        ]
        memo.update({id(t): mode.from_tensor(t, static_shapes=True) for t in tensors if t is not None})
    return copy.deepcopy(module, memo)


class FakeTensorProp(Interpreter):
    """Runs the graph on fake tensors and notes them."""

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def fetch_attr(self, target: str) -> Any:
        found = super().fetch_attr(target)
        return (
            self._fakes(found)
            if isinstance(found, Tensor)
            else fake_copy(found, self._mode) if isinstance(found, Module) else found
        )

    def _fakes(self, value: Any) -> Any:
        return map_aggregate(
            value,
            lambda x: (
                self._mode.from_tensor(x, static_shapes=True)
                if isinstance(x, Tensor) and not isinstance(x, FakeTensor)
                else x
            ),
        )

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        n.meta["val"] = map_aggregate(result, lambda x: x.detach() if isinstance(x, FakeTensor) else x)
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run on these arguments, made fake."""
        return self.propagate_dont_convert_inputs(
            *(self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args)
        )

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run on arguments that are fake already."""
        with self._mode:
            return super().run(*args)
