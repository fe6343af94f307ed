"""compile(backend="onnxrt"): graphs that AOTAutograd made, run by ONNX Runtime.

Enters: a graph without writes, and fakes like its inputs. Leaves: a function of one list. The graph is decomposed and
converted as exported programs are. Refuses: ops without ONNX nodes, random numbers (the runtime draws others than this
program would), tensors on other devices than the CPU. Of a backward graph that has such ops it says so, once, and the
graph runs op by op.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..aot.compile_graph import default_partition
from ..export import ExportedProgram
from ..export.exported_program import ModuleCallEntry
from ..export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
from ..export.values import argument_of, note_numbers
from ..fx.node import Node
from ..op import find_op
from . import sessions
from .building import DEFAULT
from .converting import Wanted, converted, prepared
from .errors import UnsupportedOperatorError


def is_available() -> bool:
    """Whether ONNX Runtime is installed."""
    return sessions.is_installed()


def run_forward(gm: Any, example_inputs: list[Any]) -> Callable:
    """A graph in a session of its own."""
    return _Compiled(gm).boxed()


def run_backward(gm: Any, example_inputs: list[Any]) -> Callable:
    """A backward graph in a session of its own; op by op where ONNX has not all of its ops."""
    try:
        return _Compiled(gm).boxed()
    except UnsupportedOperatorError as error:
        warnings.warn(f"compile(backend='onnxrt'): the backward graph runs op by op. {error}", stacklevel=2)
        return gm.forward


def partition(joint: Any, num_results: int, overwritten: Sequence[int] = (), **options: Any) -> Any:
    """Forward and backward, cut so that nothing is computed again; numbers that are kept say what they are."""
    note_numbers(joint.graph)
    return default_partition(joint, num_results, overwritten, **options)


class _Compiled:
    """One graph: its session, and what of the results the session gives."""

    def __init__(self, gm: Any) -> None:
        for node in gm.graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            if isinstance(value, _C.Tensor) and value.device.type != "cpu":
                raise RuntimeError(
                    f"compile(backend='onnxrt'): graphs run on the CPU, and input {node.name} is on {value.device}."
                )
        # Preparing lifts constants: they are the core's inputs then, and the model's own.
        self.is_fed = [not _is_constant(n) for n in gm.graph.find_nodes(op="placeholder")]
        self.returned, self.session = gm.graph.output_node().args[0], None
        if any(isinstance(n, Node) for n in self.returned):
            core = prepared(_program(gm))
            self.session = sessions.session_of(converted(core, Wanted(DEFAULT, keeps_origin=False, draws=False)))
            self.returned = core.graph.output_node().args[0]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        given = [_as_pairs(x) for x, fed in zip(inputs, self.is_fed, strict=True) if fed]
        results = iter(sessions.run(self.session, given) if self.session is not None else ())
        return [_as_traced(next(results), n.meta.get("val")) if isinstance(n, Node) else n for n in self.returned]

    def boxed(self) -> Callable:
        def call(inputs: list[Any]) -> list[Any]:
            return self(inputs)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def _is_constant(node: Node) -> bool:
    return not isinstance(node.meta.get("val"), (_C.Tensor, _C.SymbolicInt))


def _as_pairs(value: Any) -> Any:
    """Complex numbers as models have them."""
    return find_op("view_as_real")(value.resolve_conj()) if isinstance(value, _C.Tensor) and value.dtype.is_complex \
        else value


def _as_traced(result: Any, seen: Any) -> Any:
    """A result as the program has it: numbers as numbers, dims in memory in the order that tracing saw."""
    if isinstance(seen, _C.SymbolicInt):
        return int(result)
    if isinstance(seen, _C.Tensor) and seen.dtype.is_complex:
        result = find_op("view_as_complex")(result.contiguous())
    if not isinstance(seen, _C.Tensor) or seen.is_contiguous() or not seen.ndim:
        return result
    strides = [s if type(s) is int else int(s.node.hint if hasattr(s, "node") else s.hint) for s in seen.stride()]
    order = sorted(range(seen.ndim), key=lambda d: -strides[d])
    return result.permute(order).contiguous().permute([order.index(d) for d in range(seen.ndim)])


def _program(gm: Any) -> ExportedProgram:
    """A graph as a program all of whose inputs are arguments."""
    graph, env = gm.graph, None
    inputs, outputs = [], []
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        env = env or getattr(getattr(value, "fake_mode", None), "shape_env", None)
        inputs.append(InputSpec(InputKind.USER_INPUT, argument_of(value, node), None))
    returned = graph.output_node().args[0]
    for node in returned:
        value = node.meta.get("val") if isinstance(node, Node) else None
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, argument_of(value, node), None))
    signature = ExportGraphSignature(inputs, outputs)
    return ExportedProgram(gm, graph, signature, {}, {}, [ModuleCallEntry("")], shape_env=env)
