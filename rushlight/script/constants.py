"""Constants of graphs: Python values into nodes, and back.

Enters: a value. Leaves: a `prim::Constant` node's output with its type. Refuses: values that have no type here.
"""

from __future__ import annotations

import enum
from typing import Any

from .. import _C
from ..base.dtype import ALL
from . import types as t
from .ir import Graph, Node, Value

_NUMBERS = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8",
    "bits16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
)
DTYPE_NUMBERS = {ALL[name]: number for number, name in enumerate(_NUMBERS) if name in ALL}
NUMBERED_DTYPES = {number: dtype for dtype, number in DTYPE_NUMBERS.items()}
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")


def as_number(value: Any) -> int | None:
    """The integer that stands for a dtype, a layout or a memory format; None for anything else."""
    if isinstance(value, _C.dtype):
        return DTYPE_NUMBERS[value]
    kind = type(value).__name__
    word = str(value).rpartition(".")[2]
    if kind == "memory_format":
        return _FORMATS.index(word)
    if kind == "layout":
        return _LAYOUTS.index(word)
    return None


def type_of(value: Any) -> t.Type | None:
    """The type of a Python value; None where it has none."""
    for kind, found in ((bool, t.BoolType()), (int, t.IntType()), (float, t.FloatType()), (complex, t.ComplexType()),
                        (str, t.StringType())):
        if isinstance(value, kind):
            return found
    if value is None:
        return t.NoneType()
    if isinstance(value, _C.Tensor):
        return t.TensorType.of(value)
    if isinstance(value, _C.device):
        return t.DeviceObjType()
    if as_number(value) is not None:
        return t.IntType()
    if isinstance(value, tuple):
        parts = [type_of(item) for item in value]
        return None if None in parts else t.TupleType(parts)  # type: ignore[arg-type]
    if isinstance(value, list):
        return _list_type(value)
    if isinstance(value, dict) and value:
        keys, values = t.unify_all([*map(type_of, value)]), t.unify_all([*map(type_of, value.values())])  # type: ignore
        return t.DictType(keys, values) if keys and values else None
    return None


def _list_type(value: list) -> t.Type | None:
    if not value:
        return t.ListType(t.TENSOR)
    parts = [type_of(item) for item in value]
    if None in parts:
        return None
    element = t.unify_all([t.plain(part) for part in parts])  # type: ignore[arg-type]
    return t.ListType(element) if element is not None else None


def set_constant(node: Node, value: Any, type: t.Type | None = None) -> bool:
    """Make a node the constant `value`; False where it cannot be one."""
    number = as_number(value)
    if number is not None:
        value = number
    found = type or type_of(value)
    if found is None:
        return False
    output = node.outputs_[0]
    output.type_ = found
    if value is None:
        return True
    kind = "ival"
    if isinstance(value, enum.Enum):         # before numbers: some enums are such
        pass
    elif isinstance(value, bool):
        value, kind = int(value), "i"
    elif isinstance(value, int):
        kind = "i"
    elif isinstance(value, float):
        kind = "f"
    elif isinstance(value, complex):
        kind = "c"
    elif isinstance(value, str):
        kind = "s"
    elif isinstance(value, _C.device):
        value, kind = str(value), "s"
    elif isinstance(value, _C.Tensor):
        if value.requires_grad:
            return False
        kind = "t"
    node.set(kind, "value", value)
    return True


def insert_constant(graph: Graph, value: Any, type: t.Type | None = None) -> Value:
    """A constant where nodes go now. Refuses values that cannot be one."""
    node = graph.create("prim::Constant")
    if not set_constant(node, value, type):
        raise RuntimeError(f"a value of type {value.__class__.__name__} cannot be a constant: {value!r:.80}")
    return graph.insert_node(node).outputs_[0]


_UNKNOWN = object()


def constant_of(value: Value, default: Any = _UNKNOWN) -> Any:
    """The Python value of a constant; `default` for values that are none."""
    node = value.node_
    if node.kind_ != "prim::Constant":
        return default
    if not node.attributes:
        return None if t.NoneType().is_subtype_of(value.type_) else default
    if "value" not in node.attributes:
        return default
    held = node.attributes["value"]
    if isinstance(value.type_, t.BoolType):
        return bool(held)
    if isinstance(value.type_, t.DeviceObjType):
        return _C.device(held)
    return held


def is_constant(value: Value) -> bool:
    return constant_of(value) is not _UNKNOWN
