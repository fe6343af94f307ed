"""Graphs that a device compiles as a whole (`Device.compile`), instead of kernel by kernel.

Enters: a graph on one device, and examples of its inputs. Leaves: what the device made of it, called as `Compiled` is;
None where the device takes none, or not this one. Refuses, by the device's name, functions that cannot be called and
results that are not as many as the graph's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..base import late
from ..devices import Device, handlers
from ..devices.failures import failure
from .read_graph import flat


def whole(graph_module: Any, examples: Sequence[Any], device: Any) -> Any:
    """What the device makes of the whole graph."""
    handler = None if device is None else handlers.get(device.type)
    if handler is None or type(handler).compile is Device.compile:
        return None
    sizes = [n for x in examples for n in (x.shape if isinstance(x, _C.Tensor) else (x,))]
    env = next((n.env for n in sizes if hasattr(n, "env")), None)
    graph = late.provided("aten graphs")(graph_module, env)
    try:
        function = handler.compile(graph)
        if function is not NotImplemented and not callable(function):
            raise TypeError(f"expected a function or NotImplemented, got {function!r}")
    except Exception as error:
        raise failure(handler, "compile", error) from error
    return None if function is NotImplemented else Whole(graph_module, function, handler)


class Whole:
    """A graph as a device compiled it."""

    native_parts = None
    calls: tuple[str, ...] = ()

    def __init__(self, graph_module: Any, function: Callable, handler: Device) -> None:
        self.function, self.handler = function, handler
        (end,) = graph_module.graph.find_nodes(op="output")
        self.count = len(flat(end.args[0]))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        results = self.function(*inputs)
        found = list(results) if isinstance(results, (list, tuple)) else [results]
        if len(found) != self.count:
            raise failure(self.handler, "compile", ValueError(
                f"the graph has {self.count} outputs, and the function returned {len(found)}"))
        return found
