"""Nodes of a graph for TensorBoard, named after the modules they belong to.

Enters: values by any hashable key, calls of ops with their arguments. Leaves: a `GraphDef` message. What is not a
tensor becomes nodes of its own, as PyTorch's tracer has it: `prim::Constant`, `prim::ListConstruct`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ... import _C
from .wire import Message

Stack = tuple[tuple[str, str], ...]      # modules, from the outside in: (path, class)

_SCALAR_TYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
                 "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16")
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr")
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def constant_text(value: Any) -> str:
    """A constant's attributes as PyTorch prints them: flags and types are numbers, quotes are blanks."""
    if value is None:
        return "{}"
    name = str(value).rpartition(".")[2]
    for known in (_SCALAR_TYPES, _LAYOUTS, _FORMATS):
        if name in known and not isinstance(value, str):
            value = known.index(name)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, (int, float, complex, str)):
        value = str(value)
    return str({"value": value}).replace("'", " ")


class Node:
    """One node: its name, op, inputs (keys of values), attributes, and its result's shape."""

    def __init__(self, name: str, op: str, inputs: Sequence[str], note: str, shape: Sequence[int] | None) -> None:
        self.name, self.op, self.inputs, self.note, self.shape = name, op, list(inputs), note, shape

    def message(self) -> Message:
        attributes = [Message("AttrEntry", key="attr", value=Message("AttrValue", s=self.note))]
        if self.shape is not None:
            shape = Message("TensorShapeProto", dim=[Message("Dim", size=int(s)) for s in self.shape])
            listed = Message("AttrValue", list=Message("AttrList", shape=[shape]))
            attributes.append(Message("AttrEntry", key="_output_shapes", value=listed))
        return Message("NodeDef", name=self.name, op=self.op, input=self.inputs, attr=attributes)

    def __str__(self) -> str:
        shape = "" if self.shape is None else f" -> {list(self.shape)}"
        return f"{self.name} = {self.op}({', '.join(self.inputs)}){shape} {self.note}".rstrip()


class GraphNodes:
    """The nodes of a module's graph, in the order PyTorch writes them: inputs, outputs, and what is between."""

    def __init__(self, model: Any) -> None:
        self.model, self.root = model, type(model).__name__
        self.inputs: list[Node] = []
        self.outputs: list[Node] = []
        self.inner: list[Node] = []
        self.names: dict[Hashable, str] = {}
        self.pools: dict[str, dict[tuple, str]] = {}      # constants of each module that the outermost calls
        self.held: dict[str, str] = {}                    # modules that attributes are taken from, as values
        self.attributes: dict[str, str] = {}              # attributes drawn, by path
        self.number = 0

    def _next(self, scope: str) -> str:
        self.number += 1
        return f"{scope}/{self.number}"

    def scope(self, stack: Stack) -> str:
        """Where what runs in these modules stands."""
        return "/".join([self.root, *(f"{kind}[{path.rpartition('.')[2]}]" for path, kind in stack)])

    def input(self, key: Hashable, name: str, tensor: Any) -> None:
        """An input of the module."""
        self.names[key] = f"input/{name}"
        self.inputs.append(Node(self.names[key], "IO Node", (), "", tensor.shape))

    def attribute(self, key: Hashable, path: str) -> None:
        """A parameter or buffer of the module, drawn at its module when first used."""
        if path not in self.attributes:
            self.attributes[path] = self._drawn_attribute(path)
        self.names[key] = self.attributes[path]

    def _drawn_attribute(self, path: str) -> str:
        owner, _, attr = path.rpartition(".")
        parts = owner.split(".") if owner else []
        stack, module = [], self.model
        for k, part in enumerate(parts):
            module = getattr(module, part)
            stack.append((".".join(parts[: k + 1]), type(module).__name__))
        scope = self.scope(tuple(stack))
        value = ("_" + parts[-1] if parts[-1].isdigit() else parts[-1]) if parts else "self"
        # PyTorch names the module after the attribute that is taken from it first; it is no node.
        source = self.held.setdefault(owner, f"{scope}/{attr}/{value}")
        name = f"{scope}/{attr}/{attr}"
        self.inner.append(Node(name, "prim::GetAttr", (source,), str({"name": attr}).replace("'", " "), None))
        return name

    def tensor_constant(self, key: Hashable, tensor: Any) -> None:
        """A tensor that the program holds outside its modules."""
        self.names[key] = self._next(self.root)
        self.inner.append(Node(self.names[key], "prim::Constant", (), constant_text(tensor), tensor.shape))

    def same(self, key: Hashable, other: Hashable) -> None:
        """A value that is another one."""
        self.names[key] = self.names[other]

    def _constant(self, value: Any, stack: Stack) -> str:
        kept = self.pools.setdefault(stack[0][0], {}) if stack else {}
        known = (type(value), str(value))
        if known not in kept:
            kept[known] = self._next(self.scope(stack))
            self.inner.append(Node(kept[known], "prim::Constant", (), constant_text(value), None))
        return kept[known]

    def value(self, given: Any, stack: Stack) -> str:
        """The name of an argument, whose nodes are added where it is no known value."""
        if self._is_known(given):
            return self.names[given]
        if isinstance(given, dict):
            parts = [self.value(v, stack) for pair in given.items() for v in pair]
            return self._built("prim::DictConstruct", parts, stack)
        if isinstance(given, (list, tuple)):
            op = "prim::TupleConstruct" if isinstance(given, tuple) else "prim::ListConstruct"
            return self._built(op, [self.value(v, stack) for v in given], stack)
        return self._constant(given, stack)

    def _is_known(self, given: Any) -> bool:
        try:
            return given in self.names
        except TypeError:      # a list, or something with one inside
            return False

    def _built(self, op: str, parts: list[str], stack: Stack) -> str:
        name = self._next(self.scope(stack))
        self.inner.append(Node(name, op, parts, "{}", None))
        return name

    def call(
        self, keys: Sequence[Hashable], op: str, stack: Stack, given: Sequence[Any], values: Sequence[Any]
    ) -> None:
        """A call: a node for each of its results, `values`, under `keys`."""
        inputs, scope = [self.value(v, stack) for v in given], self.scope(stack)
        for key, value in zip(keys, values, strict=True):
            self.names[key] = self._next(scope)
            shape = value.shape if isinstance(value, _C.Tensor) else None
            self.inner.append(Node(self.names[key], op, inputs, "{}", shape))

    def output(self, given: Any) -> None:
        """The module's result."""
        source = self.value(given, ())
        node = next((n for n in [*self.inner, *self.inputs] if n.name == source), None)
        shape = node.shape if node is not None and node.shape is not None else [1]
        self.outputs.append(Node("output/output.1", "IO Node", (source,), "", shape))

    def message(self) -> Message:
        """The graph."""
        nodes = [node.message() for node in [*self.inputs, *self.outputs, *self.inner]]
        return Message("GraphDef", node=nodes, versions=Message("VersionDef", producer=22))

    def __str__(self) -> str:
        return "\n".join(str(node) for node in [*self.inputs, *self.inner, *self.outputs])
