"""compile(backend="openxla"): graphs that AOTAutograd made, forward and backward, run by XLA.

Enters: a graph without writes, and fakes like its inputs. Leaves: a function of one list. Graphs with sizes that vary
are compiled for each sizes that come. Random numbers are drawn from the host's generator and given to the program, so
that they are those of eager mode. Tensors on "xla" are recorded, as they are without `compile`. Refuses: ops that
StableHLO has no rule for, other devices, and random numbers that computed tensors decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..aot.capture import capture
from ..autograd.grad_mode import no_grad
from ..mlir.stablehlo import translate
from . import client, stored
from .client import Value
from .draws import lift_draws
from .engine import as_buffer, as_dtype
from .unit import NAME, is_available, require

__all__ = ["compile_graph", "is_available"]


def compile_graph(gm: Any, example_inputs: list[Any]) -> Callable:
    """A graph, forward or backward, as a function of one list that XLA runs."""
    require()
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    devices = {v.device.type for v in values if isinstance(v, _C.Tensor)}
    if devices - {"cpu", NAME}:
        raise RuntimeError(f"compile(backend='openxla'): graphs run on the CPU or on 'xla', and an input is on"
                           f" {sorted(devices - {'cpu', NAME})[0]!r}")
    run = gm.forward if NAME in devices else Compiled(gm)

    def call(inputs: list[Any]) -> Any:
        given = list(inputs)
        inputs.clear()
        return run(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


class Compiled:
    """One graph: its programs, by the sizes of its inputs."""

    def __init__(self, gm: Any) -> None:
        self.gm = gm
        self.draws = lift_draws(gm)
        self.programs: dict[Any, _Program] = {}

    def __call__(self, *inputs: Any) -> list[Any]:
        with no_grad():
            given = [*inputs, *[draw(inputs) for draw in self.draws]]
            key = tuple((tuple(x.shape), x.dtype) if isinstance(x, _C.Tensor) else x for x in given)
            program = self.programs.get(key)
            if program is None:
                program = self.programs[key] = _Program(self.gm, given)
            return program(given)


class _Program:
    """A graph for certain sizes, compiled."""

    def __init__(self, gm: Any, given: Sequence[Any]) -> None:
        self.tensors = [k for k, x in enumerate(given) if isinstance(x, _C.Tensor)]
        inputs = [client.check_dtype(given[k].dtype) for k in self.tensors]
        self.results: list[Any] = []      # of tensors what they are like, anything else as it is

        def run(buffers: Sequence[Any]) -> list[Any]:
            args = list(given)
            for k, b, dtype in zip(self.tensors, buffers, inputs, strict=True):
                args[k] = as_dtype(b, dtype)
            made = gm(*args)
            self.results = [_Layout(m) if isinstance(m, _C.Tensor) else m for m in made]
            return [as_buffer(m.clone()) for m in made if isinstance(m, _C.Tensor)]

        captured = capture(run, [as_buffer(given[k].detach()) for k in self.tensors], wants_grad=False)
        self.places = [o.source for o in captured.meta.outputs]
        self.held = [client.value_of(t).buffer for t in captured.lifted]
        seen = [node.meta.get("val") for node in captured.graph.graph.find_nodes(op="placeholder")]
        self.executable = stored.executable_of(translate(captured.graph, seen)) if self.places else None

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        if self.executable is None:
            return list(self.results)
        buffers = [client.value_of(given[k]).buffer for k in self.tensors]
        made = client.run(self.executable, buffers + self.held)
        places = iter(self.places)
        return [r.shown(Value(made[next(places)], r.dtype).tensor()) if isinstance(r, _Layout) else r
                for r in self.results]


class _Layout:
    """How a result lies in memory: XLA's have their elements in order."""

    def __init__(self, t: Any) -> None:
        self.dtype, self.order = client.check_dtype(t.dtype), None
        if not t.is_contiguous() and t.ndim:
            self.order = sorted(range(t.ndim), key=lambda d: -t.stride(d))

    def shown(self, t: Any) -> Any:
        """The result, laid out as eager mode has it."""
        if self.order is None:
            return t
        return t.permute(self.order).contiguous().permute([self.order.index(d) for d in range(t.ndim)])
