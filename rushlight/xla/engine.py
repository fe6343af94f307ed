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
from . import client, stored, translate
from .client import Value


class Compiled:
    """A program of XLA's: how it runs, which of its inputs it has itself, and the types of its results."""

    def __init__(self, text: str, held: Sequence[Value], places: Sequence[int], dtypes: Sequence[Any]) -> None:
        self.text, self.places, self.dtypes = text, tuple(places), tuple(dtypes)
        self.held = [value.buffer for value in held]
        self.executable = stored.executable_of(text)


class XlaEngine(Engine):
    """Values are buffers of PJRT's, flat."""

    name = "xla"

    def compile(self, program: Program, given: Sequence[Any]) -> Compiled:
        examples = [x.tensor() if isinstance(x, Value) else x for x in given]

        def run(inputs: Sequence[Any]) -> list[Any]:
            return [as_buffer(t) for t in program.run(inputs)]

        with no_grad():
            captured = capture(run, examples, wants_grad=False)
            if any(o.kind is not OutputKind.NEW for o in captured.meta.outputs):
                kinds = sorted({o.kind.value for o in captured.meta.outputs})
                raise AssertionError(f"xla: outputs of a program must be new tensors, got {kinds}")
        places = [o.source for o in captured.meta.outputs]
        returned = captured.graph.graph.output_node().args[0]
        text = translate.module_text(captured.graph, donated=replaced(program, places))
        dtypes = [program.shapes[n].dtype if n in program.shapes else returned[p].meta["val"].dtype
                  for n, p in zip(program.outputs, places, strict=True)]
        return Compiled(text, [client.value_of(t) for t in captured.lifted], places, dtypes)

    def run(self, compiled: Compiled, given: Sequence[Any]) -> list[Any]:
        buffers = [(x if isinstance(x, Value) else client.value_of(x)).buffer for x in given]
        results = client.run(compiled.executable, [*buffers, *compiled.held])
        return [Value(results[p], dtype) for p, dtype in zip(compiled.places, compiled.dtypes, strict=True)]

    def text(self, compiled: Compiled) -> str:
        return compiled.text

    def from_host(self, tensor: Any) -> Value:
        return client.value_of(tensor)

    def to_host(self, value: Value) -> Any:
        return value.tensor()
