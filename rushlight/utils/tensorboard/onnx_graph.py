"""The graph of an ONNX file for TensorBoard: its inputs and outputs as variables, and its nodes.

Enters: the path of a file. Leaves: a `GraphDef` message as PyTorch writes it. Weights are not drawn. Refuses: files
that hold no ONNX model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ...base.protobuf import fields
from .wire import Message

# Fields of ONNX's messages, by number.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 4, 5
_TYPE_TENSOR, _TENSOR_ELEMENT, _TENSOR_SHAPE, _SHAPE_DIM, _DIM_VALUE = 1, 1, 2, 1, 1
_ATTRIBUTE_NAME, _ATTRIBUTE_TYPE = 1, 20
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS = range(2, 10)


def _texts(message: Any, field: int) -> list[str]:
    return [bytes(value).decode() for number, value in fields(message) if number == field]


def _inside(message: Any, *path: int) -> Iterator[Any]:
    """The values of a field, at the end of a path through messages."""
    for number, value in fields(message):
        if number == path[0]:
            if len(path) == 1:
                yield value
            else:
                yield from _inside(value, *path[1:])


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _packed(value: Any) -> list[int]:
    """Integers that were written one after the other."""
    found, current, shift = [], 0, 0
    for byte in bytes(value):
        current |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(_signed(current))
            current = shift = 0
    return found


def _attribute_text(message: Any) -> str:
    """An attribute as `name = value = kind`."""
    name, kind, shown = "", 0, ""
    listed: list[Any] = []
    for number, value in fields(message):
        if number == _ATTRIBUTE_NAME:
            name = bytes(value).decode()
        elif number == _ATTRIBUTE_TYPE:
            kind = value
        elif number in (_FLOATS, _INTS, _STRINGS):
            if isinstance(value, memoryview) and number == _INTS:
                listed += _packed(value)
            elif isinstance(value, memoryview) and number == _FLOATS:
                listed += list(bytes(value) and memoryview(bytes(value)).cast("f"))
            else:
                listed.append(bytes(value) if number == _STRINGS else value if number == _FLOATS else _signed(value))
            shown = str(listed)
        elif number == _TENSOR:
            shown = f"tensor of sizes {[_signed(v) for v in _inside(value, 1) if isinstance(v, int)]}"
        elif number == _GRAPH:
            shown = "graph"
        elif number in (_FLOAT, _INT, _STRING):
            shown = str({_FLOAT: float, _INT: _signed, _STRING: bytes}[number](value))
    return " = ".join(part for part in (name, shown, str(kind)) if part)


def _variable(message: Any) -> Message:
    """An input or output."""
    sizes = []
    for dim in _inside(message, 2, _TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM):
        sizes.append(Message("Dim", size=next(_inside(dim, _DIM_VALUE), 0)))
    element = next(_inside(message, 2, _TYPE_TENSOR, _TENSOR_ELEMENT), 0)
    attributes = [
        Message("AttrEntry", key="dtype", value=Message("AttrValue", type=element)),
        Message("AttrEntry", key="shape", value=Message("AttrValue", shape=Message("TensorShapeProto", dim=sizes))),
    ]
    return Message("NodeDef", name=_texts(message, 1)[0], op="Variable", input=[], attr=attributes)


def _call(message: Any) -> Message:
    """A node, named after its first output."""
    text = ", ".join(_attribute_text(value) for value in _inside(message, _NODE_ATTRIBUTE))
    note = Message("AttrEntry", key="parameters", value=Message("AttrValue", s=text))
    return Message("NodeDef", name=_texts(message, _NODE_OUTPUT)[0], op=_texts(message, _NODE_OP)[0],
                   input=_texts(message, _NODE_INPUT), attr=[note])


def load_onnx_graph(fname: str | os.PathLike) -> Message:
    """The graph of a file."""
    with open(fname, "rb") as f:
        data = f.read()
    try:
        graph = next(_inside(data, _MODEL_GRAPH), None)
        if graph is None:
            raise ValueError("it has no graph")
        nodes = [_variable(v) for v in (*_inside(graph, _GRAPH_INPUT), *_inside(graph, _GRAPH_OUTPUT))]
        nodes += [_call(v) for v in _inside(graph, _GRAPH_NODE)]
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"add_onnx_graph: expected an ONNX model in {os.fspath(fname)!r}: {error}") from error
    return Message("GraphDef", node=nodes, versions=Message("VersionDef", producer=22))
