"""An ONNX model as records, and the bytes that it is.

Enters: values, nodes, tensors. Leaves: `Model`, which encodes itself as a ModelProto (onnx.proto, whose field numbers
are below) and saves itself with its tensors inside or in a file beside it. Files are written whole and renamed, so that
nobody reads half of one. Refuses: models over 2 GB in one file, which protobuf does not read; types ONNX does not have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from .. import _C
from .wire import Message

LARGEST_FILE = 2**31 - 1          # protobuf reads no more
ALIGNED = 4096                    # tensors beside the model begin on pages, so that they can be mapped
BESIDE = 1024                     # smaller tensors stay in the model: shapes are inferred from some
ELEMENT = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "b1": 9, "f16": 10, "f64": 11, "u32": 12,
    "u64": 13, "c64": 14, "c128": 15, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19,
    "f8e5m2fnuz": 20, "u4": 21, "i4": 22, "f8e8m0fnu": 24,
}
# Under this key files of PyTorch say what a tensor is to the program: a PARAMETER, a BUFFER or a CONSTANT_TENSOR.
ROLE = "pkg.torch.export.graph_signature.InputSpec.kind"
PARAMETER, CONSTANT = "PARAMETER", "CONSTANT_TENSOR"
HALF_BYTES = ("u4", "i4")         # tensors of these have a byte for each element; files two elements in a byte


def element_type(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    if dtype.code not in ELEMENT:
        raise TypeError(f"onnx: {dtype} is no type of ONNX's")
    return ELEMENT[dtype.code]


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the graph: its name, and what is known of it. Sizes are numbers, names of varying ones, or None."""

    name: str
    dtype: Any
    shape: tuple[int | str | None, ...] | None = None
    kind: Any = None                  # of values that were read: what the file says of them (kinds.Kind)

    @property
    def ndim(self) -> int:
        assert self.shape is not None, f"the rank of {self.name} is not known"
        return len(self.shape)

    def encoded(self) -> Message:
        tensor = Message().integer(1, element_type(self.dtype))
        if self.shape is not None:
            sizes = Message()
            for n in self.shape:
                dim = Message()
                if isinstance(n, str):
                    dim.text(2, n)
                elif n is not None:
                    dim.integer(1, n)
                sizes.message(1, dim)
            tensor.message(2, sizes)
        return Message().text(1, self.name).message(2, Message().message(1, tensor))


@dataclasses.dataclass
class Node:
    """One call of an operator, by names of values; "" where an optional input is not given."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    name: str = ""
    domain: str = ""
    origin: Mapping[str, str] = dataclasses.field(default_factory=dict)      # where in the program it comes from
    overload: str = ""                # which of several functions of one name

    def encoded(self) -> Message:
        found = Message()
        for name in self.inputs:
            found.text(1, name)
        for name in self.outputs:
            found.text(2, name)
        found.text(3, self.name).text(4, self.op)
        for name, value in self.attributes.items():
            found.message(5, _attribute(name, value))
        if self.domain:
            found.text(7, self.domain)
        for key, text in self.origin.items():
            found.message(9, Message().text(1, key).text(2, text))
        return found

    def __str__(self) -> str:
        given = ", ".join([n or "-" for n in self.inputs] + [f"{k}={v!r}" for k, v in self.attributes.items()
                                                             if not isinstance(v, Graph)])
        inner = [f"\n{k}:\n{v}".replace("\n", "\n    ") for k, v in self.attributes.items() if isinstance(v, Graph)]
        return f"{', '.join(self.outputs)} = {self.op}({given})" + "".join(inner)


@dataclasses.dataclass
class Graph:
    """Inputs, nodes in an order in which they can run, results, and the tensors that it holds."""

    name: str
    inputs: list[Value] = dataclasses.field(default_factory=list)
    outputs: list[Value] = dataclasses.field(default_factory=list)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    tensors: dict[str, Any] = dataclasses.field(default_factory=dict)
    values: dict[str, Value] = dataclasses.field(default_factory=dict)      # what is known of values between nodes
    roles: dict[str, str] = dataclasses.field(default_factory=dict)         # what tensors are to the program: see ROLE

    def encoded(self, tensor: Callable[[str, Any], Message] | None = None) -> Message:
        found = Message()
        for node in self.nodes:
            found.message(1, node.encoded())
        found.text(2, self.name)
        for name, t in self.tensors.items():
            found.message(5, (tensor or encoded_tensor)(name, t))
        for field, values in ((11, self.inputs), (12, self.outputs), (13, self.values.values())):
            for value in values:
                found.message(field, value.encoded())
        for value in self._tensors_with_roles():
            role = Message().text(1, ROLE).text(2, self.roles[value.name])
            found.message(13, value.encoded().message(4, role))
        return found

    def _tensors_with_roles(self) -> list[Value]:
        """Tensors of which it is said what they are, and nothing else: those that are inputs too say that there."""
        said = {v.name for v in self.inputs} | set(self.values)
        return [Value(name, t.dtype, tuple(t.shape)) for name, t in self.tensors.items()
                if name in self.roles and name not in said]

    def __str__(self) -> str:
        def shown(value: Value) -> str:
            sizes = "?" if value.shape is None else ", ".join("?" if n is None else str(n) for n in value.shape)
            return f"{value.name}: {value.dtype.code}[{sizes}]"

        held = [f"  {name}: {t.dtype.code}{list(t.shape)}" for name, t in self.tensors.items()]
        lines = [f"{self.name}({', '.join(map(shown, self.inputs))}) -> {', '.join(map(shown, self.outputs))}"]
        return "\n".join([*lines, *held, *[f"  {line}" for n in self.nodes for line in str(n).split("\n")]])


@dataclasses.dataclass(frozen=True)
class Reference:
    """A setting of a node in a function: that of the function by this name."""

    name: str


@dataclasses.dataclass
class Function:
    """An operator that a model defines, by nodes."""

    domain: str
    name: str
    overload: str = ""
    inputs: list[str] = dataclasses.field(default_factory=list)
    outputs: list[str] = dataclasses.field(default_factory=list)
    attributes: list[str] = dataclasses.field(default_factory=list)
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    opsets: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Model:
    """A graph, and which versions of the operators it is written in."""

    graph: Graph
    opset: int
    ir_version: int
    opsets: Mapping[str, int] = dataclasses.field(default_factory=dict)      # further domains
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    producer: tuple[str, str] = ("rushlight", "")
    functions: dict[tuple[str, str, str], Function] = dataclasses.field(default_factory=dict)
    made: dict[str, str] = dataclasses.field(default_factory=dict)      # values by the nodes of the program they were

    def encoded(self, tensor: Callable[[str, Any], Message] | None = None) -> Message:
        found = Message().integer(1, self.ir_version).text(2, self.producer[0]).text(3, self.producer[1])
        found.message(7, self.graph.encoded(tensor))
        for domain, version in {"": self.opset, **self.opsets}.items():
            found.message(8, Message().text(1, domain).integer(2, version))
        for key, text in self.metadata.items():
            found.message(14, Message().text(1, key).text(2, text))
        return found

    def bytes(self) -> bytes:
        """The whole model, its tensors in it."""
        return bytes(_fitting(self.encoded()))

    def size(self) -> int:
        """Bytes of the tensors that the model holds."""
        return sum(t.numel() * t.dtype.itemsize for t in self.graph.tensors.values())

    def save(self, path: str | os.PathLike[str], external_data: bool = False) -> None:
        """Write a file; with `external_data` the tensors go into `<path>.data` beside it."""
        path = os.fspath(path)
        if not external_data:
            with replacing(path) as file:
                write(file, _fitting(self.encoded()))
            return
        beside = f"{os.path.basename(path)}.data"
        # Both files are whole before either takes its place.
        with replacing(f"{path}.data") as data, replacing(path) as file:
            places = self._write_tensors(data)

            def tensor(name: str, t: Any) -> Message:
                if name not in places:
                    return encoded_tensor(name, t)
                entries = {"location": beside, "offset": str(places[name][0]), "length": str(places[name][1])}
                found = Message().integers(1, t.shape).integer(2, element_type(t.dtype)).text(8, name)
                for key, text in entries.items():
                    found.message(13, Message().text(1, key).text(2, text))
                return found.integer(14, 1)

            write(file, _fitting(self.encoded(tensor)))

    def _write_tensors(self, file: BinaryIO) -> dict[str, tuple[int, int]]:
        """Put the larger tensors into a file; where each begins, and its length."""
        places = {}
        for name, t in self.graph.tensors.items():
            if t.numel() * t.dtype.itemsize < BESIDE:
                continue
            file.write(b"\0" * (-file.tell() % ALIGNED))
            begin, data = file.tell(), memory_of(t)
            file.write(data)
            places[name] = begin, len(data)
        return places

    def __str__(self) -> str:
        return f"opset {self.opset}, IR {self.ir_version}\n{self.graph}"


def encoded_tensor(name: str, t: Any) -> Message:
    """A tensor with its elements."""
    return Message().integers(1, t.shape).integer(2, element_type(t.dtype)).text(8, name).data(9, memory_of(t))


def memory_of(t: Any) -> memoryview:
    """The elements of a tensor in row-major order, as bytes: its own memory where it has that order on the CPU."""
    t = t.detach().cpu().contiguous()
    if not t.numel():
        return memoryview(b"")
    flat = t.reshape(-1).view(_C.uint8)
    if t.dtype.code in HALF_BYTES:
        pairs = flat.new_zeros((-(-flat.numel() // 2), 2))
        pairs.view(-1)[: flat.numel()] = flat & 15
        flat = pairs[:, 0] | (pairs[:, 1] << 4)
    return memoryview(flat.numpy())


def _attribute(name: str, value: Any) -> Message:
    found = Message().text(1, name)
    if isinstance(value, bool) or type(value) is int:
        return found.integer(3, value).integer(20, 2)
    if isinstance(value, float):
        return found.real(2, value).integer(20, 1)
    if isinstance(value, str):
        return found.text(4, value).integer(20, 3)
    if isinstance(value, _C.Tensor):
        return found.message(5, encoded_tensor("", value)).integer(20, 4)
    if isinstance(value, Graph):
        return found.message(6, value.encoded()).integer(20, 5)
    if isinstance(value, (list, tuple)) and all(type(v) is int for v in value):
        return found.integers(8, value).integer(20, 7)
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        return found.reals(7, value).integer(20, 6)
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        for v in value:
            found.text(9, v)
        return found.integer(20, 8)
    raise TypeError(f"onnx: attribute {name} is a {type(value).__name__}, and ONNX has no attributes of that type")


def _fitting(message: Message) -> Message:
    if message.length > LARGEST_FILE:
        raise ValueError(
            f"onnx: the model is {message.length:,} bytes, and one file of protocol buffers holds {LARGEST_FILE:,}."
            " Save it with external_data=True, which puts its tensors into a file beside it."
        )
    return message


def write(file: BinaryIO, message: Message) -> None:
    """The pieces of a message, one after the other."""
    file.writelines(message.pieces)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A new file that takes its place when it is whole; what was there stays if writing fails."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def used_names(nodes: Sequence[Node]) -> set[str]:
    """Values that nodes read, those of graphs inside of them too."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.inputs)
        for value in node.attributes.values():
            if isinstance(value, Graph):
                found |= used_names(value.nodes) | {v.name for v in value.outputs}
    return found
