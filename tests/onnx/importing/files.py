"""Small ONNX files, written by our own records, for tests that need neither `onnx` nor a runtime."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.onnx.model import Graph, Model, Node, Value

F32, I64, BOOL = torch.float32, torch.int64, torch.bool


def value(name: str, *shape: int | str | None, dtype: Any = F32) -> Value:
    return Value(name, dtype, shape)


def graph(nodes: list[Node], inputs: list[Value], outputs: list[Value], tensors: dict[str, Any] | None = None) -> Graph:
    return Graph("g", inputs, outputs, nodes, tensors or {})


def model(nodes: list[Node], inputs: list[Value], outputs: list[Value], tensors: dict[str, Any] | None = None,
          opset: int = 20, roles: dict[str, str] | None = None, **facts: Any) -> bytes:
    whole = graph(nodes, inputs, outputs, tensors)
    whole.roles.update(roles or {})
    return Model(whole, opset, 10, **facts).bytes()


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> Node:
    """Names apart by spaces; "-" where an optional input is left out."""
    return Node(op, tuple("" if n == "-" else n for n in inputs.split()), tuple(outputs.split()), attributes,
                domain=domain)
