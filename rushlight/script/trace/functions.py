"""Traces as functions and methods of scripts.

Enters: a callable, example inputs, and for a module the object that holds its state. Leaves: `Function`s with graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...fx.patching import _Patcher
from ...nn import Module
from ...nn.modules.rnn import RNNBase, RNNCellBase
from .. import types as t
from ..classes import ClassType, Object
from ..constants import type_of
from ..graph_functions import GraphFunction
from ..ir import Graph
from ..passes.dead_code import drop_dead
from ..passes.tuples import lower_simple_tuples
from ..unit import Function
from ..values import bound
from .layers import cell, recurrent
from .mode import TracingMode, warn
from .recorder import Recorder
from .scopes import ATTRIBUTE, to_flat, to_methods
from .state import current


def clean(graph: Graph) -> None:
    """What every trace goes through at the end."""
    lower_simple_tuples(graph.block)
    drop_dead(graph)


def input_type(held: Any) -> t.Type:
    """The type of an example: that of the value, with shapes for tensors that are no elements of lists and dicts."""
    if isinstance(held, tuple):
        return t.TupleType([input_type(item) for item in held])
    found = _container_type(held) if isinstance(held, (list, dict)) else type_of(held)
    if not isinstance(found, (t.TensorType, t.ListType, t.DictType)):
        raise RuntimeError(f"Type '{type(held).__name__}' cannot be traced: inputs are tensors, and tuples, lists and"
                           " dicts of them")
    return found


def _container_type(held: Any) -> t.Type | None:
    items = list(held.values()) if isinstance(held, dict) else held
    if not items:
        raise RuntimeError("trace: an empty list or dict has no type")
    element = t.unify_all([t.plain(input_type(item)) for item in items])
    if element is None:
        return None
    return t.ListType(element) if isinstance(held, list) else t.DictType(type_of(next(iter(held))), element)  # type: ignore


@contextmanager
def recording(recorder: Recorder) -> Iterator[TracingMode]:
    """Within, calls of this thread are written down."""
    before, current.recorder = current.recorder, recorder
    mode = TracingMode(recorder)
    try:
        with _Patcher() as patcher:
            patcher.patch_method(Module, "__call__", _scoped, deduplicate=False)
            patcher.patch_method(RNNBase, "_forward", recurrent(RNNBase._forward), deduplicate=False)
            patcher.patch_method(RNNCellBase, "_next", cell(RNNCellBase._next), deduplicate=False)
            patcher.patch_method(Function, "__call__", _kept_call(Function.__call__), deduplicate=False)
            with mode:
                yield mode
    finally:
        current.recorder = before


def _scoped(self: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of a module, with the scope it has in a trace of this thread."""
    recorder = current.recorder
    path = recorder.module_paths.get(id(self)) if recorder is not None else None
    run = self._compiled_call_impl or self._call_impl
    if path is None or path == "__module":
        return run(*args, **kwargs)
    if not (self._forward_hooks or self._forward_pre_hooks):
        with recorder.inside(path):
            return run(*args, **kwargs)
    return _beside_hooks(self, recorder, path, run, args, kwargs)


def _beside_hooks(module: Any, recorder: Recorder, path: str, run: Callable, args: tuple, kwargs: dict) -> Any:
    """What hooks do is the caller's: only `forward` itself runs in the scope."""
    own = module.__dict__.get("forward")
    forward = module.forward

    def scoped(*given: Any, **named: Any) -> Any:
        with recorder.inside(path):
            return forward(*given, **named)

    module.__dict__["forward"] = scoped
    try:
        return run(*args, **kwargs)
    finally:
        if own is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = own


def _kept_call(plain: Callable) -> Callable:
    """Calls of compiled functions and methods, which stay calls in a trace of this thread."""
    def call(self: Function, *args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or recorder.is_paused:
            return plain(self, *args, **kwargs)
        given = bound(self.schema, args, kwargs)
        inputs = [recorder.argument_of(held, argument.type)
                  for held, argument in zip(given, self.schema.arguments, strict=True)]
        graph = recorder.graph
        with graph.at_range(None):
            if self.owner is not None:
                node = graph.insert("prim::CallMethod", inputs).set("s", "name", self.name)
            else:
                function = graph.create("prim::Constant").set("s", "name", self.name)
                function.pyobj = self
                function.outputs_[0].type_ = t.FunctionType(self)
                node = graph.insert("prim::CallFunction", [graph.insert_node(function).outputs_[0], *inputs])
        with recorder.paused():
            result = plain(self, *args, **kwargs)
        recorder.result(node.outputs_[0], result, self.schema.return_type())
        return result

    return call


def _begin(recorder: Recorder, inputs: Sequence[Any], names: Sequence[str]) -> list[Any]:
    given = []
    for at, held in enumerate(inputs):
        name = names[at] if len(names) >= len(inputs) else ""
        given.append(recorder.add_input(held, input_type(held), recorder.graph.add_input(name)))
    return given


def trace_function(unit: Any, name: str, function: Callable, inputs: Sequence[Any], names: Sequence[str],
                   strict: bool) -> tuple[GraphFunction, Any]:
    """A function's trace, and what it answered."""
    recorder = Recorder(strict)
    given = _begin(recorder, inputs, names)
    with recording(recorder):
        result = function(*given)
    recorder.graph.register_output(recorder.output(result, warn))
    to_flat(recorder.graph, clean)
    return GraphFunction(unit, name, recorder.graph), result


def trace_flat(function: Callable, inputs: Sequence[Any], state: Sequence[Any], strict: bool) -> tuple[Graph, Any]:
    """A run as one graph whose inputs are tensors: those given, then those of a module's state."""
    recorder = Recorder(strict, names_variables=False)
    given = _begin(recorder, inputs, ())
    for tensor in state:
        if recorder.known(tensor) is None:
            recorder.add_input(tensor, t.TensorType.of(tensor), recorder.graph.add_input())
    with recording(recorder):
        result = function(*given)
    for leaf in _tensors_in(result):
        recorder.graph.register_output(recorder.output(leaf, warn))
    to_flat(recorder.graph, clean)
    return recorder.graph, result


def _tensors_in(held: Any) -> Iterator[Any]:
    for item in held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else (held,):
        if isinstance(item, (dict, list, tuple)):
            yield from _tensors_in(item)
        else:
            yield item


def trace_method(unit: Any, name: str, function: Callable, inputs: Sequence[Any], names: Sequence[str], strict: bool,
                 module: Module, held: Object) -> tuple[GraphFunction, Any]:
    """The trace of a method of a module whose state `held` is."""
    recorder = Recorder(strict)
    recorder.bind(held, recorder.graph.add_input("self", held.type))
    _gather(recorder, module, held, "__module")
    given = _begin(recorder, inputs, names)
    with recording(recorder):
        result = function(*given)
    recorder.graph.register_output(recorder.output(result, warn))

    def add_method(type: ClassType, graph: Graph) -> str:
        number, free = 0, "forward"
        while free in type.methods:
            number += 1
            free = f"forward{number}"
        type.methods[free] = GraphFunction(unit, f"{type.name_}.{free}", graph, type)
        return free

    to_methods(recorder.graph, clean, add_method)
    made = GraphFunction(unit, f"{held.type.name_}.{name}", recorder.graph, held.type)
    held.type.methods[name] = made
    return made, result


def _gather(recorder: Recorder, module: Any, held: Object, path: str) -> None:
    """Parameters, buffers and submodules as values at the head of the graph."""
    if not hasattr(module, "__script_object__"):
        recorder.module_paths.setdefault(id(module), path)
    for slot, value in held.items():
        inner = f"{path}.{slot.name}"
        with recorder.graph.at_range(None):
            output = recorder.graph.insert(ATTRIBUTE, (), slot.type).set("s", "scope", inner).outputs_[0]
        if isinstance(slot.type, t.TensorType):
            if recorder.known(value) is None:
                recorder.bind(value, output)
                output.type_ = t.TensorType.of(value)
        elif isinstance(value, Object):
            child = module._modules.get(slot.name)
            if child is not None:
                recorder.bind(value, output)
                _gather(recorder, child, value, inner)
