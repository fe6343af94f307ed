"""What a trace has written so far: a graph, and which value of it each tensor of the running program is.

Enters: tensors, numbers and containers of the program. Leaves: values of the graph: nodes for ops, constants for what
the program had before. Refuses: tensors with gradients that are neither inputs nor parameters, results that are no
tensors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import _C
from ...dispatch.modes import below, state
from .. import types as t
from ..constants import as_number, insert_constant
from ..ir import Graph, Node, Value
from ..source import Range, Source

Tensor = _C.Tensor
_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
# frames that stand between the program and the recorder
_MACHINERY = tuple(os.path.join(_PACKAGE, part) + os.sep for part in ("dispatch", "op", "aten", "base", "tensors"))
_BODIES = ("functional.py", "operators.py", "layers.py")        # bodies of functions that the program calls


class PlaceSource(Source):
    """A line of a file of which no more is known than its number."""

    def __init__(self, filename: str, line: int) -> None:
        super().__init__("", filename, line)


def calling_frame() -> Any:
    """The frame of the program, or of a library that it runs in, that made the call now recorded."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_HERE):
            if os.path.basename(name) in _BODIES and not frame.f_code.co_name.startswith(("_", "<")):
                return frame
        elif not name.startswith(_MACHINERY):
            return frame
        frame = frame.f_back  # type: ignore[assignment]
    return None


class Recorder:
    """One trace that is being made."""

    def __init__(self, strict: bool = True, names_variables: bool = True) -> None:
        self.graph = Graph()
        self.strict, self.names_variables = strict, names_variables
        self.values: dict[int, tuple[Any, Value]] = {}       # by identity; the tensor is kept so that it stays its own
        self.module_paths: dict[int, str] = {}               # "__module.layer1" of the modules that are traced
        self.scopes: list[str] = []
        self.ranges: dict[tuple[str, int], Range] = {}
        self.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, nothing is written down."""
        before, self.is_paused = self.is_paused, True
        try:
            with below(state.function_modes):
                yield
        finally:
            self.is_paused = before

    # --- places and names
    def place(self) -> Range | None:
        """Where the program is now."""
        frame = calling_frame()
        if frame is None:
            return None
        key = (frame.f_code.co_filename, frame.f_lineno)
        if key not in self.ranges:
            self.ranges[key] = Range(PlaceSource(*key), 0, 0)
        return self.ranges[key]

    def _name(self, tensor: Any, value: Value) -> None:
        """A value without a name gets that of the program's variable."""
        if value.has_name() or not self.names_variables:
            return
        frame = calling_frame()
        if frame is None:
            return
        for name, held in frame.f_locals.items():
            if held is tensor:
                if name != "self" and name.isidentifier():
                    value.set_debug_name(name)
                return

    # --- values
    def known(self, held: Any) -> Value | None:
        """The value that a tensor or object is, if the trace has it."""
        found = self.values.get(id(held))
        return found[1] if found is not None else None

    def bind(self, held: Any, value: Value) -> None:
        """From now on the tensor is this value."""
        self.values[id(held)] = (held, value)

    def value(self, tensor: Any) -> Value:
        """The value of a tensor; one that the trace did not see made is a constant."""
        found = self.known(tensor)
        if found is not None:
            self._name(tensor, found)
            return found
        if tensor.requires_grad:
            raise RuntimeError("Cannot insert a Tensor that requires grad as a constant. Make it a parameter or an"
                               f" input, or detach it\nTensor:\n{tensor}")
        with self.graph.at_range(self.place()):
            made = insert_constant(self.graph, tensor)
        self.bind(tensor, made)
        return made

    def constant(self, held: Any, located: bool = True) -> Value:
        """A number, word or None."""
        with self.graph.at_range(self.place() if located and held is not None else None):
            return insert_constant(self.graph, held)

    def number_tensor(self, number: Any) -> Value:
        """A number where an op takes a tensor."""
        return self.tensor_constant(wrapped(number))

    def tensor_constant(self, tensor: Any) -> Value:
        with self.graph.at_range(self.place()):
            return insert_constant(self.graph, tensor)

    def integer(self, held: Any) -> Value:
        """A number for an op, or a tensor of one element that stands for one."""
        return self._element(held, "aten::Int", t.IntType()) if isinstance(held, Tensor) else self.constant(held)

    def _element(self, tensor: Any, kind: str, type: t.Type) -> Value:
        found = self.known(tensor)
        if found is None:
            number = tensor.item()
            return self.constant(float(number) if isinstance(type, t.FloatType) else number)
        self._name(tensor, found)
        with self.graph.inserting(found.node_.next_), self.graph.at_range(None):  # type: ignore[arg-type]
            return self.graph.insert(kind, [found], type).outputs_[0]

    def row(self, values: Sequence[Value], element: t.Type) -> Value:
        with self.graph.at_range(None):
            return self.graph.insert("prim::ListConstruct", values, t.ListType(element)).outputs_[0]

    def argument(self, type: t.Type, held: Any, length: int | None = None) -> Value:
        """An argument of an op as a value of the type that its signature asks for."""
        if isinstance(type, t.OptionalType):
            if held is None:
                return self.constant(None)
            type = type.element
        if held is None:
            return self.constant(None)
        if isinstance(type, t.TensorType):
            return self.value(held) if isinstance(held, Tensor) else self.number_tensor(held)
        if isinstance(type, t.ListType):
            return self._list(type.element, held, length)
        if isinstance(held, Tensor):
            kinds = {t.IntType: "aten::Int", t.FloatType: "aten::Float", t.NumberType: "aten::ScalarImplicit"}
            return self._element(held, kinds.get(type.__class__, "aten::Int"), type)
        if isinstance(type, t.FloatType):
            return self.constant(float(held))
        if isinstance(type, t.BoolType):
            return self.constant(bool(held))
        if isinstance(type, t.DeviceObjType):
            return self.constant(_C.device(held))
        if isinstance(type, t.ComplexType):
            return self.constant(complex(held))
        number = as_number(held)
        return self.constant(held if number is None else number)

    def argument_of(self, held: Any, type: t.Type) -> Value:
        """An argument of a compiled function: containers are made of their parts."""
        known = self.known(held) if not isinstance(held, Tensor) else None
        if known is not None:
            return known
        if isinstance(type, t.OptionalType) and held is not None:
            type = type.element
        if isinstance(type, t.TupleType) and held is not None:
            parts = [self.argument_of(item, element) for item, element in zip(held, type.elements_, strict=True)]
            with self.graph.at_range(None):
                return self.graph.insert("prim::TupleConstruct", parts,
                                         t.TupleType([part.type_ for part in parts])).outputs_[0]
        if isinstance(type, t.DictType) and held is not None:
            inputs = []
            for key, item in held.items():
                inputs += [self.constant(key), self.argument_of(item, type.value)]
            with self.graph.at_range(None):
                return self.graph.insert("prim::DictConstruct", inputs, type).outputs_[0]
        return self.argument(type, held)

    def result(self, output: Value, held: Any, type: t.Type) -> None:
        """Say which tensors the result of a compiled function holds."""
        if isinstance(held, Tensor):
            output.type_ = t.TensorType.of(held)
            self.bind(held, output)
            return
        output.type_ = type
        if isinstance(held, (tuple, list)) and held:
            kind = "prim::TupleUnpack" if isinstance(held, tuple) else "prim::ListUnpack"
            with self.graph.at_range(None):
                node = self.graph.insert(kind, [output], outputs=len(held))
            elements = type.elements_ if isinstance(type, t.TupleType) else [type.contained()[0]] * len(held)
            for value, item, element in zip(node.outputs_, held, elements, strict=True):
                self.result(value, item, element)

    def _list(self, element: t.Type, held: Any, length: int | None) -> Value:
        if not isinstance(held, (list, tuple)) and not (isinstance(held, Tensor) and not isinstance(
                element, (t.IntType, t.FloatType))):
            held = [held] * (length or 1)
        return self.row([self.argument(element, item) for item in held], element)

    # --- nodes
    def node(self, kind: str, inputs: Sequence[Value], outputs: int = 1) -> Node:
        with self.graph.at_range(self.place()):
            return self.graph.insert(kind, inputs, outputs=outputs)

    def results(self, node: Node, made: Any) -> None:
        """Say which tensors a node's outputs are."""
        items = made if isinstance(made, tuple) else (made,)
        for output, item in zip(node.outputs_, items, strict=True):
            if isinstance(item, Tensor):
                output.type_ = t.TensorType.of(item)
                if node.kind_ == "aten::_convolution":      # seen below autograd, which asks for the gradient after it
                    output.type_.requires_grad_ = False
                self.bind(item, output)
            elif isinstance(item, (list, tuple)):
                output.type_ = t.ListType(t.TENSOR)
                self._unpacked(output, item)

    def _unpacked(self, row: Value, items: Sequence[Any]) -> None:
        with self.graph.at_range(None):
            node = self.graph.insert("prim::ListUnpack", [row], outputs=len(items))
        for output, item in zip(node.outputs_, items, strict=True):
            output.type_ = t.TensorType.of(item)
            self.bind(item, output)

    def size(self, tensor: Any, dim: int) -> Any:
        """A tensor's size along a dimension, as a tensor that the trace knows."""
        found = self.value(tensor)
        at = self.constant(dim)
        node = self.node("aten::size", [found, at])
        node.outputs_[0].type_ = t.IntType()
        return self._number_as_tensor(node.outputs_[0], int(tensor.size(dim)))

    def numel(self, tensor: Any) -> Any:
        """The number of elements of a tensor, likewise."""
        node = self.node("aten::numel", [self.value(tensor)])
        node.outputs_[0].type_ = t.IntType()
        return self._number_as_tensor(node.outputs_[0], int(tensor.numel()))

    def _number_as_tensor(self, number: Value, held: int) -> Any:
        made = _make_tensor(held)
        with self.graph.at_range(None):
            output = self.graph.insert("prim::NumToTensor", [number]).outputs_[0]
        output.type_ = t.TensorType(_C.int64, (), None, _C.device("cpu"))
        self.bind(made, output)
        return made

    # --- scopes
    @contextmanager
    def inside(self, path: str) -> Iterator[None]:
        """Within, the program runs the forward of a module."""
        with self.graph.at_range(None):
            node = self.graph.insert("prim::TracedModuleForward", outputs=0).set("s", "scope", path)
        before = self.graph.insert_at, self.graph.current_scope
        self.graph.insert_at = node.add_block().return_node
        self.graph.current_scope = f"{before[1]}/{path}" if before[1] else path
        try:
            yield
        finally:
            self.graph.insert_at, self.graph.current_scope = before

    # --- the ends
    def add_input(self, held: Any, type: t.Type, value: Value) -> Any:
        """Make a value stand for what the program is given; tensors that are given twice become two."""
        value.type_ = type
        if isinstance(type, t.TensorType):
            if self.known(held) is not None:
                held = held.view(held.size())
            self.bind(held, value)
            return held
        with self.graph.at_range(None):
            if isinstance(type, t.TupleType):
                node = self.graph.insert("prim::TupleUnpack", [value], outputs=len(held))
                items = [self.add_input(*parts) for parts in zip(held, type.elements_, node.outputs_, strict=True)]
                return held._make(items) if hasattr(held, "_make") else tuple(items)
            if isinstance(type, t.ListType):
                node = self.graph.insert("prim::ListUnpack", [value], outputs=len(held))
                return [self.add_input(item, self._of(type.element, item), output)
                        for item, output in zip(held, node.outputs_, strict=True)]
            if isinstance(type, t.DictType):
                return {key: self._entry(type, key, item, value) for key, item in held.items()}
        raise RuntimeError(f"Only tensors, and tuples, lists and dicts of them, can be inputs of a trace, got {type}")

    def _entry(self, type: t.DictType, key: Any, item: Any, value: Value) -> Any:
        at = insert_constant(self.graph, key)
        output = self.graph.insert("aten::__getitem__", [value, at]).outputs_[0]
        return self.add_input(item, self._of(type.value, item), output)

    @staticmethod
    def _of(type: t.Type, item: Any) -> t.Type:
        return t.TensorType.of(item) if isinstance(type, t.TensorType) else type

    def output(self, held: Any, warn: Callable[[str], None]) -> Value:
        """The value of a result. Refuses what is no tensor, and containers that may change, where the trace is
        strict."""
        if isinstance(held, Tensor):
            found = self.known(held)
            return self.value(held) if found is None or not held.requires_grad else found
        if isinstance(held, tuple):
            return self._tuple(held, warn)
        if isinstance(held, dict):
            if self.strict:
                raise RuntimeError(_container_words("dict"))
            return self._dict(held, warn)
        if isinstance(held, list):
            if self.strict:
                warn(_container_words("list"))
            parts = [self.output(item, warn) for item in held]
            element = t.unify_all([t.plain(part.type_) for part in parts]) or t.TENSOR
            return self.row(parts, element)
        if held is None:
            raise RuntimeError("The traced function didn't return any values: a trace is what results are made of, and"
                               " there are none")
        raise RuntimeError("Only tensors, and tuples, lists and dicts of them, can be results of a trace, got"
                           f" {type(held).__name__}")

    def _tuple(self, held: tuple, warn: Callable[[str], None]) -> Value:
        parts = [self.output(item, warn) for item in held]
        made = t.TupleType([part.type_ for part in parts])
        with self.graph.at_range(None):
            return self.graph.insert("prim::TupleConstruct", parts, made).outputs_[0]

    def _dict(self, held: dict, warn: Callable[[str], None]) -> Value:
        if not held:
            raise RuntimeError("a dict without entries cannot be a result of a trace")
        pairs = [(self.constant(key), item) for key, item in held.items()]
        inputs = []
        for key, item in pairs:
            inputs += [key, self.output(item, warn)]
        element = t.unify_all([t.plain(part.type_) for part in inputs[1::2]])
        if element is None:
            raise RuntimeError("the values of a dict that a trace returns must be of one type")
        with self.graph.at_range(None):
            made = t.DictType(inputs[0].type_, element)
            return self.graph.insert("prim::DictConstruct", inputs, made).outputs_[0]


def _container_words(kind: str) -> str:
    return (f"Encountering a {kind} at the output of the tracer might cause the trace to be incorrect: that holds only"
            " where its structure does not change with the inputs. Return a constant container instead (a `tuple` for"
            " a `list`, a `NamedTuple` for a `dict`), or pass strict=False to allow it.")


def _make_tensor(held: int) -> Any:
    from ...base import late

    return late.provided("package").tensor(held)


def wrapped(number: Any, dtype: Any = None) -> Any:
    """A number as a tensor of no dimension. It remembers the number: in type promotion it counts for one."""
    from ...base import late

    torch = late.provided("package")
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
    made = torch.tensor(number, dtype=dtype or kinds[type(number)])
    if dtype is None:
        made.wrapped_number = number
    return made
