"""Bytes of an ONNX file as the records of `model.py`.

Enters: a ModelProto as memory. Leaves: a `Model` whose tensors are `Stored`: they lie where the file has them, and are
decoded when they are asked for. Refuses: bytes that are no such message, tensors whose sizes their bytes do not back,
graphs nested without end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from ..kinds import Kind, element
from ..model import Function, Graph, Model, Node, Reference, Value
from ..wire import fields
from .errors import damaged
from .stored import SparseStored, Stored, packed_integers

DEEPEST = 100          # graphs in graphs, and types in types


def read_model(data: Any) -> Model:
    """The model that some bytes are."""
    view = memoryview(data).cast("B") if not isinstance(data, memoryview) else data
    if not len(view):
        raise ValueError("onnx: there are no bytes to read a model from")
    reader = _Reader()
    try:
        model = reader.model(view)
    except ValueError as error:
        if str(error).startswith("onnx"):
            raise
        raise damaged(str(error)) from error
    if not reader.has_graph:
        raise damaged("it has no graph")
    return model


class _Reader:
    """Messages within messages, and how deep we are in them."""

    def __init__(self) -> None:
        self.depth = 0
        self.has_graph = False

    def within(self, read: Callable[[memoryview], Any], value: Any) -> Any:
        """A message inside of the one that is read."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise damaged(f"messages lie in one another more than {DEEPEST} deep")
        try:
            return read(memory(value))
        finally:
            self.depth -= 1

    def model(self, data: memoryview) -> Model:
        found = Model(Graph(""), 0, 0, producer=("", ""))
        opsets: dict[str, int] = {}
        producer = ["", ""]
        for field, value in fields(data):
            if field == 1:
                found.ir_version = whole(value)
            elif field in (2, 3):
                producer[field - 2] = text(value)
            elif field == 7:
                found.graph = self.within(self.graph, value)
                self.has_graph = True
            elif field == 8:
                domain, version = _opset(memory(value))
                opsets[domain] = version
            elif field == 14:
                key, word = _entry(memory(value))
                found.metadata[key] = word
            elif field == 25:
                function = self.within(self.function, value)
                found.functions[function.domain, function.name, function.overload] = function
        found.producer = (producer[0], producer[1])
        found.opset = opsets.pop("", 1)
        found.opsets = opsets
        return found

    def graph(self, data: memoryview) -> Graph:
        found = Graph("")
        for field, value in fields(data):
            if field == 1:
                found.nodes.append(self.within(self.node, value))
            elif field == 2:
                found.name = text(value)
            elif field == 5:
                name, stored = self.within(read_tensor, value)
                if name in found.tensors:
                    raise damaged(f"two tensors are called {name!r}")
                found.tensors[name] = stored
            elif field == 15:
                sparse = self.within(self.sparse, value)
                found.tensors[sparse.name] = sparse
            elif field in (11, 12):
                (found.inputs if field == 11 else found.outputs).append(self.within(self.value, value))
            elif field == 13:
                known = self.within(self.value, value)
                found.values[known.name] = known
        return found

    def node(self, data: memoryview) -> Node:
        inputs, outputs, attributes = [], [], {}
        name = op = domain = overload = ""
        for field, value in fields(data):
            if field == 1:
                inputs.append(text(value))
            elif field == 2:
                outputs.append(text(value))
            elif field == 3:
                name = text(value)
            elif field == 4:
                op = text(value)
            elif field == 5:
                key, setting = self.within(self.attribute, value)
                attributes[key] = setting
            elif field == 7:
                domain = plain_domain(text(value))
            elif field == 8:
                overload = text(value)
        return Node(op, tuple(inputs), tuple(outputs), attributes, name, domain, overload=overload)

    def function(self, data: memoryview) -> Function:
        found = Function("", "")
        for field, value in fields(data):
            if field == 1:
                found.name = text(value)
            elif field == 4:
                found.inputs.append(text(value))
            elif field == 5:
                found.outputs.append(text(value))
            elif field == 6:
                found.attributes.append(text(value))
            elif field == 7:
                found.nodes.append(self.within(self.node, value))
            elif field == 9:
                domain, version = _opset(memory(value))
                found.opsets[domain] = version
            elif field == 10:
                found.domain = plain_domain(text(value))
            elif field == 11:
                key, setting = self.within(self.attribute, value)
                found.defaults[key] = setting
            elif field == 13:
                found.overload = text(value)
        return found

    def attribute(self, data: memoryview) -> tuple[str, Any]:
        """A setting: its name and its value. Repeated fields alone do not say that a list is empty; its type does."""
        name = reference = ""
        kind = 0
        single: Any = None
        several: dict[int, list[Any]] = {}
        for field, value in fields(data):
            if field == 1:
                name = text(value)
            elif field == 21:
                reference = text(value)
            elif field == 20:
                kind = whole(value)
            elif field == 2:
                single = real(value)
            elif field == 3:
                single = whole(value)
            elif field == 4:
                single = text(value)
            elif field == 5:
                single = self.within(read_tensor, value)[1]
            elif field == 6:
                single = self.within(self.graph, value)
            elif field == 14:
                single = self.within(self.kind, value)
            elif field == 22:
                single = self.within(self.sparse, value)
            elif field == 7:
                several.setdefault(7, []).extend(_reals(value))
            elif field == 8:
                several.setdefault(8, []).extend(_integers(value))
            elif field == 9:
                several.setdefault(9, []).append(text(value))
            elif field in (10, 11, 15):
                read = {10: lambda v: read_tensor(v)[1], 11: self.graph, 15: self.kind}[field]
                several.setdefault(field, []).append(self.within(read, value))
        if reference:
            return name, Reference(reference)
        if single is None and (several or kind in (6, 7, 8, 9, 10, 11, 12, 13)):
            return name, next(iter(several.values()), [])
        if single is None:        # proto3 leaves zeros out
            single = {1: 0.0, 2: 0, 3: ""}.get(kind)
        return name, single

    def value(self, data: memoryview) -> Value:
        name, kind = "", None
        for field, value in fields(data):
            if field == 1:
                name = text(value)
            elif field == 2:
                kind = self.within(self.kind, value)
        if kind is None or kind.form != "tensor":
            return Value(name, None, None, kind)
        dtype = element(kind.number, f"value {name!r}").dtype if kind.number else None
        return Value(name, dtype, kind.shape, kind)

    def kind(self, data: memoryview) -> Kind:
        found = Kind("tensor")
        for field, value in fields(data):
            if field in (1, 8):
                found = _tensor_kind(memory(value), "tensor" if field == 1 else "sparse")
            elif field in (4, 9):
                inner = None
                for number, part in fields(memory(value)):
                    if number == 1:
                        inner = self.within(self.kind, part)
                found = Kind("sequence" if field == 4 else "optional", inner=inner)
            elif field == 5:
                found = Kind("map")
        return found

    def sparse(self, data: memoryview) -> SparseStored:
        values = indices = None
        name, dims = "", []
        for field, value in fields(data):
            if field == 1:
                name, values = self.within(read_tensor, value)
            elif field == 2:
                indices = self.within(read_tensor, value)[1]
            elif field == 3:
                dims.extend(_integers(value))
        if values is None or indices is None:
            raise damaged(f"sparse tensor {name!r} has no values or no indices")
        return SparseStored(name, values, indices, tuple(dims))


def read_tensor(data: memoryview) -> tuple[str, Stored]:
    """A TensorProto: its name, and where its elements are."""
    name, number, dims = "", 0, []
    found = Stored()
    for field, value in fields(data):
        if field == 1:
            dims.extend(_integers(value))
        elif field == 2:
            number = whole(value)
        elif field == 8:
            name = text(value)
        elif field == 9:
            found.raw = memory(value)
        elif field in (4, 10):
            found.reals.append((8 if field == 10 else 4, _fixed(value)))
        elif field in (5, 7, 11):
            found.integers.append(value)
        elif field == 6:
            found.strings.append(memory(value))
        elif field == 13:
            key, word = _entry(memory(value))
            found.place[key] = word
        elif field == 14:
            found.is_external = whole(value) == 1
    found.name, found.shape = name, tuple(dims)
    if any(n < 0 for n in dims):
        raise damaged(f"tensor {name!r} has a negative size: {list(dims)}")
    found.element = element(number, f"tensor {name!r}")
    return name, found


def _tensor_kind(data: memoryview, form: str) -> Kind:
    number, shape = 0, None
    for field, value in fields(data):
        if field == 1:
            number = whole(value)
        elif field == 2:
            shape = tuple([_size(memory(part)) for f, part in fields(memory(value)) if f == 1])
    return Kind(form, number, shape)


def _size(data: memoryview) -> int | str | None:
    for field, value in fields(data):
        if field == 1:
            return whole(value) if whole(value) >= 0 else None
        if field == 2:
            return text(value) or None
    return None


def _opset(data: memoryview) -> tuple[str, int]:
    domain, version = "", 1
    for field, value in fields(data):
        if field == 1:
            domain = plain_domain(text(value))
        elif field == 2:
            version = whole(value)
    return domain, version


def _entry(data: memoryview) -> tuple[str, str]:
    key = word = ""
    for field, value in fields(data):
        if field == 1:
            key = text(value)
        elif field == 2:
            word = text(value)
    return key, word


# --- single values: what a field should be, or the file is damaged ----------------------------------------------------


def memory(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise damaged("a number stands where a message should")
    return value


def text(value: Any) -> str:
    # Strings of a file need not be UTF-8: what is not comes back as the same bytes when it is written.
    return str(memory(value), "utf-8", "surrogateescape")


def whole(value: Any) -> int:
    if not isinstance(value, int):
        raise damaged("bytes stand where an integer should")
    return value - (1 << 64) if value >= 1 << 63 else value


def real(value: Any) -> float:
    if not isinstance(value, float):
        raise damaged("a float of 32 bits is missing")
    return value


def plain_domain(name: str) -> str:
    """The standard's own domain has two names."""
    return "" if name == "ai.onnx" else name


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, memoryview):
        yield from packed_integers(value).tolist()
    else:
        yield whole(value)


def _reals(value: Any) -> list[float]:
    data = _fixed(value)
    if len(data) % 4:
        raise damaged("a list of floats was cut off")
    return [v[0] for v in struct.iter_unpack("<f", data)]


def _fixed(value: Any) -> Any:
    return struct.pack("<f", value) if isinstance(value, float) else memory(value)
