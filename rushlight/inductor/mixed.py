"""Graphs whose inputs lie on several devices.

Enters: a graph, examples of its inputs, and the compiler of graphs on one device. Leaves: a callable like `Compiled`.
Tensors of one number on the host go to the device with each call, as eager mode takes them for numbers there: the graph
is compiled for the device then. Other graphs over several devices run op by op, as in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..autograd.grad_mode import no_grad
from .read_graph import flat, is_node


def devices_of(examples: Sequence[Any]) -> list[Any]:
    """The devices of tensors among examples, each once."""
    return list(dict.fromkeys([x.device for x in examples if isinstance(x, _C.Tensor)]))


def compile_mixed(graph_module: Any, examples: Sequence[Any], compile_graph: Callable) -> Any:
    """A callable for inputs on several devices."""
    others = [d for d in devices_of(examples) if d.type != "cpu"]
    numbers = [k for k, x in enumerate(examples) if isinstance(x, _C.Tensor) and x.device.type == "cpu"]
    (end,) = graph_module.graph.find_nodes(op="output")
    shown = [n.meta.get("val") for n in flat(end.args[0]) if is_node(n)]
    stays = all(x.device == others[0] for x in shown if isinstance(x, _C.Tensor))
    if len(others) > 1 or not stays or any(examples[k].ndim for k in numbers):
        return OpByOp(graph_module)
    there = [_C.empty((), (), x.dtype, others[0]) if k in numbers else x for k, x in enumerate(examples)]
    return Lifted(compile_graph(graph_module, there), numbers, others[0])


class Lifted:
    """A compiled graph some of whose inputs are numbers on the host. They are written to memory on the device that
    stays the same, so that calls can be recorded."""

    native_parts = None

    def __init__(self, compiled: Any, numbers: Sequence[int], device: Any) -> None:
        self.compiled, self.device = compiled, device
        self.there: dict[int, Any] = dict.fromkeys(numbers)
        self.seen: dict[int, Any] = {}       # what was written there

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        inputs = list(inputs)
        for k in self.there:
            value = inputs[k].detach().item()
            if self.there[k] is None:
                self.there[k] = _C.empty((), (), inputs[k].dtype, self.device)
            if repr(self.seen.get(k)) != repr(value):      # 0.0 is not -0.0, and nan is nan
                self.there[k].fill_(value)
                self.seen[k] = value
            inputs[k] = self.there[k]
        return self.compiled(inputs)


class OpByOp:
    """A graph that runs as eager mode would run it."""

    native_parts = None
    calls: tuple[str, ...] = ()

    def __init__(self, graph_module: Any) -> None:
        self.graph_module = graph_module

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        with no_grad():
            return flat(self.graph_module(*inputs))
