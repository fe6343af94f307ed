"""Our own engine: programs become functional graphs, and these plans of the inductor.

Enters: a `Program` and flat tensors of the host. Leaves: flat tensors of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..aot.capture import capture
from ..aot.metadata import OutputKind
from ..autograd.grad_mode import no_grad
from ..inductor.compile_fx import compile_graph
from .engine import Engine
from .graph import Program


class Native:
    """A compiled program: what runs, the tensors that its graph holds, and where each output is among the results."""

    def __init__(self, graph: Any, run: Any, lifted: tuple, places: tuple[int, ...]) -> None:
        self.graph, self.run, self.lifted, self.places = graph, run, lifted, places


class NativeEngine(Engine):
    """Values are flat tensors on the host."""

    name = "native"

    def compile(self, program: Program, given: Sequence[Any]) -> Native:
        with no_grad():
            captured = capture(program.run, list(given), wants_grad=False)
            if any(o.kind is not OutputKind.NEW for o in captured.meta.outputs):
                kinds = sorted({o.kind.value for o in captured.meta.outputs})
                raise AssertionError(f"lazy: outputs of a program must be new tensors, got {kinds}")
            examples = [node.meta.get("val") for node in captured.graph.graph.find_nodes(op="placeholder")]
            run = compile_graph(captured.graph, examples)
        return Native(captured.graph, run, captured.lifted, tuple(o.source for o in captured.meta.outputs))

    def run(self, compiled: Native, given: Sequence[Any]) -> list[Any]:
        with no_grad():
            results = compiled.run([*given, *compiled.lifted])
        return [results[place] for place in compiled.places]

    def text(self, compiled: Native) -> str:
        return compiled.graph.code

    def from_host(self, tensor: Any) -> Any:
        return tensor

    def to_host(self, value: Any) -> Any:
        return value

