"""ONNXProgram: a model, the program that it was made of, and ways to look at, save and run it."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from ..export.graph_signature import ConstantArgument, InputKind
from ..export.values import flat_arguments
from ..op import ops
from . import sessions
from .building import draws, drop_unused, renamed_within
from .errors import OnnxExporterWarning
from .model import BESIDE, CONSTANT, LARGEST_FILE, Graph, Model, Value
from .sessions import optional


class ONNXProgram:
    """An exported model. Calling it runs it with ONNX Runtime, on the arguments that the module takes."""

    def __init__(self, model: Model, exported_program: Any) -> None:
        self.model, self.exported_program = model, exported_program
        self._session: Any = None
        self._folder: Any = None

    # --- looking ------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        text = str(self.model).replace("\n", "\n    ")
        return f"ONNXProgram(\n    {text}\n)"

    @property
    def model_proto(self) -> Any:
        """The model as `onnx.ModelProto`, for which `onnx` has to be installed; `serialize()` needs nothing."""
        return optional("onnx", "model_proto").ModelProto.FromString(self.serialize())

    @property
    def ir_model(self) -> Any:
        """The model as `onnx_ir.Model`, for which `onnx_ir` has to be installed: a copy of its own."""
        return optional("onnx_ir", "ir_model").from_proto(self.model_proto)

    @property
    def values(self) -> Mapping[str, str]:
        """Names of values in the model, by the nodes of the exported program that they come from."""
        return self.model.made

    def serialize(self) -> bytes:
        """The bytes of a file with everything in it."""
        return self.model.bytes()

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, destination: str | os.PathLike[str], *, include_initializers: bool = True,
             keep_initializers_as_inputs: bool = False, external_data: bool | None = None) -> None:
        """Write the model to a file. Tensors lie in `<destination>.data` with `external_data`, by default where one
        file would be too large. Without initializers parameters and buffers are inputs of the model."""
        model = self.model
        if not include_initializers or keep_initializers_as_inputs:
            model = with_inputs(model, include_initializers)
        if external_data is None:
            external_data = model.size() > LARGEST_FILE - 2**24
        has_large = any(t.numel() * t.dtype.itemsize >= BESIDE for t in model.graph.tensors.values())
        model.save(destination, external_data=external_data and has_large)

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Other tensors for parameters and buffers, by their names in the module. Those that the model has not, since
        nothing it computes reads them, are left out with a warning."""
        tensors = self.model.graph.tensors
        missing = [name for name in state_dict if name not in tensors]
        if missing:
            warnings.warn(f"apply_weights: the model has no tensors {', '.join(missing)}; it has {', '.join(tensors)}",
                          OnnxExporterWarning, stacklevel=2)
        for name, t in state_dict.items():
            if name in missing:
                continue
            if tuple(t.shape) != tuple(tensors[name].shape) or t.dtype is not tensors[name].dtype:
                raise ValueError(
                    f"apply_weights: {name} is {tensors[name].dtype}{list(tensors[name].shape)} in the model, "
                    f"got {t.dtype}{list(t.shape)}"
                )
            tensors[name] = t.detach()
        self.release()

    def rename_axes(self, rename_mapping: Mapping[str, str]) -> None:
        """Other names for sizes that vary."""
        renamed = {str(old): new for old, new in rename_mapping.items()}
        graph = self.model.graph

        def named(value: Value) -> Value:
            if value.shape is None:
                return value
            return dataclasses.replace(value, shape=tuple([renamed.get(n, n) if isinstance(n, str) else n
                                                           for n in value.shape]))

        graph.inputs, graph.outputs = [*map(named, graph.inputs)], [*map(named, graph.outputs)]
        self.release()

    def optimize(self) -> None:
        """Merge equal nodes and drop those that copy or that nothing needs, as `export(optimize=True)` does while it
        builds. Constants are folded by runtimes as they load a model."""
        tidied(self.model.graph)
        self.release()

    # --- running ------------------------------------------------------------------------------------------------------

    def initialize_inference_session(self, initializer: Callable[[Any], Any] = sessions.session) -> None:
        """Make the session that calls run in: `initializer` of the model's bytes, or of a file's name."""
        if self.model.size() < LARGEST_FILE - 2**24:
            self._session = initializer(self.serialize())
            return
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "model.onnx")
        self.model.save(path, external_data=True)
        self._session = initializer(path)

    def release(self) -> None:
        """Forget the session."""
        self._session = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        """The results of the model, flat."""
        if self._session is None:
            self.initialize_inference_session()
        return sessions.run(self._session, self.flat_inputs(args, kwargs))

    def call_reference(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        """The same, by `onnx.reference`: slow, and by the letter of the standard."""
        evaluator = optional("onnx.reference", "call_reference").ReferenceEvaluator(self.model_proto)
        given = self.flat_inputs(args, kwargs)
        feeds = {v.name: sessions._array(v.name, x) for v, x in zip(self.model.graph.inputs, given, strict=True)}
        return [sessions._tensor(array) for array in evaluator.run(None, feeds)]

    def compute_values(self, value_names: Sequence[str], args: tuple = (), kwargs: Mapping[str, Any] | None = None
                       ) -> Sequence[Any]:
        """Values between nodes, by their names."""
        made = {name for node in self.model.graph.nodes for name in node.outputs}
        unknown = [n for n in value_names if n not in made]
        if unknown:
            raise ValueError(f"compute_values: no node of the model makes {', '.join(unknown)}")
        graph = self.model.graph
        outputs = [Value(n, _C.float32) for n in value_names]
        inside = dataclasses.replace(graph, outputs=outputs)
        session = sessions.session(_untyped(dataclasses.replace(self.model, graph=inside), outputs))
        return sessions.run(session, self.flat_inputs(args, dict(kwargs or {})), list(value_names))

    def flat_inputs(self, args: tuple, kwargs: Mapping[str, Any]) -> list[Any]:
        """Arguments of the module as inputs of the model."""
        leaves = flat_arguments(self.exported_program.call_spec.in_spec, args, dict(kwargs))
        specs = [s for s in self.exported_program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        return [_as_reals(x) for x, s in zip(leaves, specs, strict=True) if not isinstance(s.arg, ConstantArgument)]


def _as_reals(x: Any) -> Any:
    """Complex numbers as the pairs that models take."""
    return ops["view_as_real"](x.resolve_conj()) if isinstance(x, _C.Tensor) and x.dtype.is_complex else x


def _untyped(model: Model, outputs: Sequence[Value]) -> bytes:
    """The bytes of a model some of whose outputs have no type: the runtime finds it."""
    typeless = [_Untyped(v.name, v.dtype) for v in outputs]
    return dataclasses.replace(model, graph=dataclasses.replace(model.graph, outputs=typeless)).bytes()


def tidied(graph: Graph) -> None:
    """Merge equal nodes of a graph, and drop copies and what no result needs."""
    kept_names, instead, seen, nodes = {v.name for v in graph.outputs}, {}, {}, []
    for node in graph.nodes:
        node.inputs = tuple([instead.get(n, n) for n in node.inputs])
        has_graph = any(isinstance(v, Graph) for v in node.attributes.values())
        if node.op == "Identity" and not node.domain and node.outputs[0] not in kept_names:
            instead[node.outputs[0]] = node.inputs[0]
            continue
        key = node.domain, node.op, node.inputs, repr(dict(node.attributes)), len(node.outputs)
        free = kept_names.isdisjoint(node.outputs) and not has_graph and not draws(node.op)
        if free and key in seen:
            instead.update(zip(node.outputs, seen[key], strict=True))
            continue
        if not has_graph and not draws(node.op):
            seen.setdefault(key, node.outputs)
        for value in node.attributes.values():
            if isinstance(value, Graph):
                renamed_within(value, instead)
        nodes.append(node)
    graph.nodes = nodes
    needed = drop_unused(graph)
    graph.tensors = {name: t for name, t in graph.tensors.items() if name in needed}


class _Untyped(Value):
    def encoded(self) -> Any:
        from .wire import Message  # noqa: PLC0415

        return Message().text(1, self.name)


def with_inputs(model: Model, keeps: bool) -> Model:
    """The model with its parameters and buffers among its inputs; `keeps`: and their tensors as defaults."""
    graph: Graph = model.graph
    held = [name for name in graph.tensors if graph.roles.get(name, CONSTANT) != CONSTANT]
    inputs = [*graph.inputs, *[Value(n, graph.tensors[n].dtype, tuple(graph.tensors[n].shape)) for n in held]]
    tensors = graph.tensors if keeps else {n: t for n, t in graph.tensors.items() if n not in held}
    return dataclasses.replace(model, graph=dataclasses.replace(graph, inputs=inputs, tensors=tensors))
