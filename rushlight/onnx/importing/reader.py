"""Bytes of an ONNX file as the records of `model.py`.

Enters: a ModelProto as memory. Leaves: a `Model` whose tensors are `Stored`: they lie where the file has them, and are
decoded when they are asked for. Refuses: bytes that are no such message, tensors whose sizes their bytes do not back,
graphs nested without end.
"""

from __future__ import annotations

import re
from typing import Any

from ... import _C
from ..kinds import ELEMENTS, Kind, element
from ..model import CONSTANT, PARAMETER, ROLE, Function, Graph, Model, Node, Reference, Value
from .errors import damaged
from .stored import SparseStored, Stored

DEEPEST = 200          # messages in messages: a graph in a graph is three of them
FOLDED = "pkg.onnxscript.optimizer.folded_from"      # the values that a constant was computed of
# What PyTorch's exporter calls the numbers of a program, and tensors that are neither parameters nor buffers.
_SOURCES = re.compile(r"'(?:val_\d+|scalar_tensor_default|lifted_tensor|clone|_to_copy|detach)[\w.]*'")

# --- what the fields of messages are (onnx.proto): their numbers, and the places of their values ----------------------

_KINDS = {name: k for k, name in enumerate(
    ("text", "texts", "whole", "wholes", "real", "reals", "message", "messages", "data", "parts"))}


def _table() -> list[Any]:
    return [0, ()]


def _fill(table: list[Any], **fields: tuple[int, str] | tuple[int, str, list[Any]]) -> None:
    """Say what the fields of a message are; their values come in this order."""
    entries: list[Any] = [None] * (1 + max(f[0] for f in fields.values()))
    for place, (number, kind, *inner) in enumerate(fields.values()):
        entries[number] = (_KINDS[kind], place, inner[0] if inner else None)
    table[:] = len(fields), tuple(entries)


(MODEL, GRAPH, NODE, FUNCTION, ATTRIBUTE, VALUE, NOTED, TYPE, LISTED, TENSOR_TYPE, SHAPE, DIM, TENSOR, SPARSE, OPSET,
 ENTRY) = (_table() for _ in range(16))
_fill(MODEL, ir_version=(1, "whole"), producer=(2, "text"), version=(3, "text"), graph=(7, "message", GRAPH),
      opsets=(8, "messages", OPSET), metadata=(14, "messages", ENTRY), functions=(25, "messages", FUNCTION))
_fill(GRAPH, nodes=(1, "messages", NODE), name=(2, "text"), tensors=(5, "messages", TENSOR),
      inputs=(11, "messages", VALUE), outputs=(12, "messages", VALUE), sparse=(15, "messages", SPARSE),
      between=(13, "messages", NOTED))
_fill(NODE, inputs=(1, "texts"), outputs=(2, "texts"), name=(3, "text"), op=(4, "text"),
      attributes=(5, "messages", ATTRIBUTE), domain=(7, "text"), overload=(8, "text"))
_fill(FUNCTION, name=(1, "text"), inputs=(4, "texts"), outputs=(5, "texts"), attributes=(6, "texts"),
      nodes=(7, "messages", NODE), opsets=(9, "messages", OPSET), domain=(10, "text"),
      defaults=(11, "messages", ATTRIBUTE), overload=(13, "text"))
_fill(ATTRIBUTE, name=(1, "text"), reference=(21, "text"), kind=(20, "whole"), real=(2, "real"), whole=(3, "whole"),
      text=(4, "text"), tensor=(5, "message", TENSOR), graph=(6, "message", GRAPH), type=(14, "message", TYPE),
      sparse=(22, "message", SPARSE), reals=(7, "reals"), wholes=(8, "wholes"), texts=(9, "texts"),
      tensors=(10, "messages", TENSOR), graphs=(11, "messages", GRAPH), types=(15, "messages", TYPE))
_fill(VALUE, name=(1, "text"), type=(2, "message", TYPE))
_fill(NOTED, name=(1, "text"), notes=(4, "messages", ENTRY))      # values between nodes, whose types nobody asks for
_fill(TYPE, tensor=(1, "message", TENSOR_TYPE), sequence=(4, "message", LISTED), map=(5, "data"),
      sparse=(8, "message", TENSOR_TYPE), optional=(9, "message", LISTED))
_fill(LISTED, inner=(1, "message", TYPE))
_fill(TENSOR_TYPE, number=(1, "whole"), shape=(2, "message", SHAPE))
_fill(SHAPE, dims=(1, "messages", DIM))
_fill(DIM, size=(1, "whole"), name=(2, "text"))
_fill(TENSOR, dims=(1, "wholes"), number=(2, "whole"), floats=(4, "parts"), integers=(5, "parts"), strings=(6, "parts"),
      longs=(7, "parts"), name=(8, "text"), raw=(9, "data"), doubles=(10, "parts"), unsigned=(11, "parts"),
      place=(13, "messages", ENTRY), location=(14, "whole"))
_fill(SPARSE, values=(1, "message", TENSOR), indices=(2, "message", TENSOR), dims=(3, "wholes"))
_fill(OPSET, domain=(1, "text"), version=(2, "whole"))
_fill(ENTRY, key=(1, "text"), word=(2, "text"))


def read_model(data: Any) -> Model:
    """The model that some bytes are."""
    view = memoryview(data).cast("B") if not isinstance(data, memoryview) else data
    if not len(view):
        raise ValueError("onnx: there are no bytes to read a model from")
    ir_version, producer, version, graph, opsets, metadata, functions = _read(view, MODEL)
    if graph is None:
        raise damaged("it has no graph")
    versions = _versions(opsets)
    found = Model(_graph(graph), versions.pop("", 1), ir_version or 0, producer=(producer or "", version or ""))
    found.opsets = versions
    found.metadata.update((key or "", word or "") for key, word in metadata or ())
    for record in functions or ():
        function = _function(record)
        found.functions[function.domain, function.name, function.overload] = function
    return found


def read_tensor(data: memoryview) -> tuple[str, Stored]:
    """A TensorProto: its name, and where its elements are."""
    found = _tensor(_read(data, TENSOR))
    return found.name, found


def _read(data: memoryview, table: list[Any]) -> list[Any]:
    """The values of a message's fields; None where it has none."""
    try:
        return _C.read_message(data, table, DEEPEST)
    except ValueError as error:
        raise damaged(str(error)) from error


# --- records of these values ------------------------------------------------------------------------------------------


def _graph(values: list[Any]) -> Graph:
    nodes, name, tensors, inputs, outputs, sparse, between = values
    held: dict[str, Any] = {}
    for record in tensors or ():
        stored = _tensor(record)
        if stored.name in held:
            raise damaged(f"two tensors are called {stored.name!r}")
        held[stored.name] = stored
    for record in sparse or ():
        thin = _sparse(record)
        held[thin.name] = thin
    return Graph(name or "", [_value(v) for v in inputs or ()], [_value(v) for v in outputs or ()],
                 [_node(n) for n in nodes or ()], held, roles=_roles(between, held) if between and held else {})


def _roles(between: list[Any], held: dict[str, Any]) -> dict[str, str]:
    """What the tensors of a graph are to the program that it was made of, where the file says so. What an exporter
    computed of the program's tensors is what they were."""
    found: dict[str, str] = {}
    for name, notes in between:
        if name not in held:
            continue
        said = {key: word or "" for key, word in notes or ()}
        if ROLE in said:
            found[name] = said[ROLE]
        elif FOLDED in said:
            found[name] = PARAMETER if _SOURCES.sub("", said[FOLDED]).strip("[]', ") else CONSTANT
    return found


def _node(values: list[Any]) -> Node:
    inputs, outputs, name, op, attributes, domain, overload = values
    settings = {a[0] or "": _setting(a) for a in attributes} if attributes else {}
    return Node(op or "", tuple(inputs or ()), tuple(outputs or ()), settings, name or "", plain_domain(domain or ""),
                overload=overload or "")


def _function(values: list[Any]) -> Function:
    name, inputs, outputs, attributes, nodes, opsets, domain, defaults, overload = values
    found = Function(plain_domain(domain or ""), name or "")
    found.inputs.extend(inputs or ())
    found.outputs.extend(outputs or ())
    found.attributes.extend(attributes or ())
    found.nodes.extend([_node(n) for n in nodes or ()])
    found.opsets.update(_versions(opsets))
    found.defaults.update((a[0] or "", _setting(a)) for a in defaults or ())
    found.overload = overload or ""
    return found


# What repeated fields of an attribute become, in their order: numbers and texts stay what they are.
_EACH: tuple[Any, ...] = (None, None, None, lambda v: _tensor(v), lambda v: _graph(v), lambda v: _kind(v))


def _setting(values: list[Any]) -> Any:
    """The value of an attribute. Repeated fields alone do not say that a list is empty; its type does."""
    _, reference, kind, real, whole, text, tensor, graph, type_, sparse, *several = values
    if reference:
        return Reference(reference)
    if whole is not None:
        return whole
    if real is not None:
        return real
    if text is not None:
        return text
    if tensor is not None:
        return _tensor(tensor)
    if graph is not None:
        return _graph(graph)
    if type_ is not None:
        return _kind(type_)
    if sparse is not None:
        return _sparse(sparse)
    for many, each in zip(several, _EACH, strict=True):
        if many is not None:
            return many if each is None else [each(v) for v in many]
    if kind in (6, 7, 8, 9, 10, 11, 12, 13):
        return []
    return {1: 0.0, 2: 0, 3: ""}.get(kind)           # proto3 leaves zeros out


def _value(values: list[Any]) -> Value:
    name, type_ = values[0] or "", values[1]
    kind = None if type_ is None else _kind(type_)
    if kind is None or kind.form != "tensor":
        return Value(name, None, None, kind)
    dtype = element(kind.number, f"value {name!r}").dtype if kind.number else None
    return Value(name, dtype, kind.shape, kind)


def _kind(values: list[Any]) -> Kind:
    tensor, sequence, mapping, sparse, optional = values
    if tensor is not None or sparse is not None:
        number, shape = tensor if tensor is not None else sparse
        sizes = None if shape is None else tuple([_size(d) for d in shape[0] or ()])
        return Kind("tensor" if tensor is not None else "sparse", number or 0, sizes)
    if sequence is not None or optional is not None:
        (inner,) = sequence if sequence is not None else optional
        return Kind("sequence" if sequence is not None else "optional", inner=None if inner is None else _kind(inner))
    return Kind("tensor" if mapping is None else "map")


def _size(values: list[Any]) -> int | str | None:
    size, name = values
    if size is not None:
        return size if size >= 0 else None
    return name or None


def _sparse(values: list[Any]) -> SparseStored:
    held, indices, dims = values
    if held is None or indices is None:
        raise damaged(f"sparse tensor {(held or [''] * 7)[6] or ''!r} has no values or no indices")
    stored = _tensor(held)
    return SparseStored(stored.name, stored, _tensor(indices), tuple(dims or ()))


def _tensor(values: list[Any]) -> Stored:
    dims, number, floats, integers, strings, longs, name, raw, doubles, unsigned, place, location = values
    name, shape = name or "", tuple(dims or ())
    if shape and min(shape) < 0:
        raise damaged(f"tensor {name!r} has a negative size: {list(shape)}")
    kind = ELEMENTS.get(number)
    found = Stored(name, element(number or 0, f"tensor {name!r}") if kind is None else kind, shape, raw)
    for parts in (integers, longs, unsigned):
        if parts is not None:
            found.integers.extend(parts)
    for width, parts in ((4, floats), (8, doubles)):
        if parts is not None:
            found.reals.extend([(width, memory(p)) for p in parts])
    if strings is not None:
        found.strings.extend([memory(p) for p in strings])
    if place is not None:
        found.place.update((key or "", word or "") for key, word in place)
        found.is_external = location == 1
    elif location == 1:
        found.is_external = True
    return found


def _versions(opsets: Any) -> dict[str, int]:
    """The version of each domain; a number that is left out is 0 in the file, and stands for the first."""
    return {plain_domain(domain or ""): 1 if version is None else version for domain, version in opsets or ()}


def memory(value: Any) -> memoryview:
    """Bytes, or the file is damaged."""
    if not isinstance(value, memoryview):
        raise damaged("a number stands where a message should")
    return value


def plain_domain(name: str) -> str:
    """The standard's own domain has two names."""
    return "" if name == "ai.onnx" else name
