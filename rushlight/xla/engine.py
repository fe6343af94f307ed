"""The engine of the device `xla`: programs become functional graphs, these StableHLO, and that XLA's machine code.

Enters: a lazy `Program` and values. Leaves: values, which are buffers of XLA's. What a step replaces is donated: XLA
writes the new elements over the old ones where it can. Programs that were compiled before come from the folder that
`initialize_cache` named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from ..aot.capture import capture
from ..aot.metadata import OutputKind
from ..autograd.grad_mode import no_grad
from ..lazy.engine import Engine
from ..lazy.graph import Program
from ..mlir.stablehlo import translate
from . import client, stored
from .client import AS_BYTES, Value
from .draws import Draw, lift_draws


class Compiled:
    """A program of XLA's: how it runs, which inputs it has itself, and where its results are and of which types."""

    def __init__(self, text: str, held: Sequence[Any], places: Sequence[int], dtypes: Sequence[Any],
                 draws: Sequence[Draw]) -> None:
        self.draws = draws
        self.text, self.places, self.dtypes = text, tuple(places), tuple(dtypes)
        self.held = [client.value_of(t).buffer for t in held]
        self.executable = stored.executable_of(text)


class XlaEngine(Engine):
    """Values are buffers of PJRT's, flat."""

    name = "xla"
    last: Any = None

    def wait(self) -> None:
        if self.last is not None and not self.last.is_deleted():      # by a later run, on another thread
            self.last.block_until_ready()

    def compile(self, program: Program, given: Sequence[Any]) -> Compiled:
        examples = [x.tensor() if isinstance(x, Value) else x for x in given]
        inputs, results = [client.check_dtype(t.dtype) for t in examples], []

        def run(buffers: Sequence[Any]) -> list[Any]:
            made = program.run([as_dtype(b, dtype) for b, dtype in zip(buffers, inputs, strict=True)])
            results[:] = [client.check_dtype(t.dtype) for t in made]
            return [as_buffer(t) for t in made]

        with no_grad():
            captured = capture(run, [as_buffer(t) for t in examples], wants_grad=False)
            if any(o.kind is not OutputKind.NEW for o in captured.meta.outputs):
                kinds = sorted({o.kind.value for o in captured.meta.outputs})
                raise AssertionError(f"xla: outputs of a program must be new tensors, got {kinds}")
        draws = lift_draws(captured.graph)
        places = [o.source for o in captured.meta.outputs]
        graph = captured.graph.graph
        seen = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
        made = [node.meta.get("val") for node in graph.output_node().args[0]]
        text = translate(captured.graph, seen, donated=donated(program, seen, made, places))
        return Compiled(text, captured.lifted, places, results, draws)

    def run(self, compiled: Compiled, given: Sequence[Any]) -> list[Any]:
        buffers = [x.buffer if isinstance(x, Value) else client.value_of(x).buffer for x in given]
        buffers += compiled.held
        if compiled.draws:
            with no_grad():
                hosts = [x.tensor() if isinstance(x, Value) else x for x in given]
                buffers += [client.value_of(draw(hosts)).buffer for draw in compiled.draws]
        made = client.run(compiled.executable, buffers)
        if made:
            self.last = made[0]      # results of one program come together
        return [Value(made[p], dtype) for p, dtype in zip(compiled.places, compiled.dtypes, strict=True)]

    def text(self, compiled: Compiled) -> str:
        return compiled.text

    def from_host(self, tensor: Any) -> Value:
        return client.value_of(tensor)

    def to_host(self, value: Value) -> Any:
        return value.tensor()


def as_buffer(t: Any) -> Any:
    """A tensor as buffers can have it."""
    return t.view(_C.uint8) if t.dtype in AS_BYTES else t


def as_dtype(buffer: Any, dtype: Any) -> Any:
    """What a buffer holds."""
    return buffer.view(dtype) if dtype in AS_BYTES else buffer


def donated(program: Program, inputs: Sequence[Any], results: Sequence[Any], places: Sequence[int]) -> dict[int, int]:
    """Inputs that the step replaces, and which result takes the memory of each."""
    found = {}
    place_of = dict(zip(program.outputs, places, strict=True))
    for k, number in enumerate(program.inputs):
        if number in program.replaced:
            old, new = inputs[k], results[place_of[number]]
            if old.dtype is new.dtype and old.shape == new.shape and place_of[number] not in found.values():
                found[k] = place_of[number]
    return found
