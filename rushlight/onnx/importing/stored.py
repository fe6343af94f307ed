"""Tensors of a file: where their elements lie, and what they are.

Enters: fields of TensorProto. Leaves: tensors over the file's own memory where its bytes are what a tensor's are,
copies otherwise (packed elements, numbers written one by one). Elements that lie in another file are mapped. Refuses:
sizes that the bytes do not back, and files outside of the model's folder: absolute ones, those above it, links.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
from typing import Any

from ...tensors.interop import from_numpy, frombuffer, tensor
from ..kinds import Element
from .errors import damaged

FEW = 64              # bytes that are looked at one by one: sizes and axes are a few small numbers


def packed_integers(data: Any) -> Any:
    """Integers of seven bits to a byte, as an array of int64."""
    import numpy  # noqa: PLC0415 - loaded with the first file

    if len(data) <= FEW and all(byte < 0x80 for byte in data):
        return numpy.array(list(data), numpy.int64)
    given = numpy.frombuffer(data, numpy.uint8)
    ends = numpy.flatnonzero(given < 0x80)
    if len(given) and (not len(ends) or ends[-1] != len(given) - 1):
        raise damaged("a list of integers was cut off")
    starts = numpy.concatenate([ends[:0], [0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    longest = int(lengths.max()) if len(lengths) else 0
    if longest > 10:
        raise damaged("an integer takes more than ten bytes")
    found = numpy.zeros(len(ends), numpy.uint64)
    for k in range(longest):
        has = lengths > k
        part = (given[starts[has] + k] & 0x7F).astype(numpy.uint64)
        found[has] |= part << numpy.uint64(7 * k)
    return found.view(numpy.int64)


@dataclasses.dataclass
class Stored:
    """A tensor of a file. `folder` is set where elements may lie in other files."""

    name: str = ""
    element: Element = None  # type: ignore[assignment]
    shape: tuple[int, ...] = ()
    raw: memoryview | None = None
    reals: list[tuple[int, Any]] = dataclasses.field(default_factory=list)
    integers: list[Any] = dataclasses.field(default_factory=list)
    strings: list[memoryview] = dataclasses.field(default_factory=list)
    place: dict[str, str] = dataclasses.field(default_factory=dict)
    is_external: bool = False
    folder: Any = None
    known: Any = None

    @property
    def dtype(self) -> Any:
        return self.element.dtype

    def numel(self) -> int:
        return math.prod(self.shape)

    def load(self) -> Any:
        """The tensor; strings as an array of objects. Decoded once."""
        if self.known is None:
            self.known = self._decoded()
        return self.known

    def _decoded(self) -> Any:
        if self.element.dtype is None:
            return self._strings()
        if self.is_external:
            if self.folder is None:
                raise ValueError(
                    f"onnx: tensor {self.name!r} lies in the file {self.place.get('location')!r}, and a model that is"
                    " given as bytes has no folder. Give the path of the model.")
            return self._from_bytes(self.folder.bytes_of(self.name, self.place, self._size()))
        if self.raw is not None:
            return self._from_bytes(self.raw)
        return self._from_numbers()

    def _size(self) -> int:
        return (self.numel() * self.element.bits + 7) // 8

    def _check(self, count: int, what: str) -> None:
        if count != self.numel():
            raise damaged(f"tensor {self.name!r} of shape {list(self.shape)} has {count} {what}")

    def _from_bytes(self, data: Any) -> Any:
        if len(data) != self._size():
            raise damaged(f"tensor {self.name!r} of shape {list(self.shape)} takes {self._size()} bytes of"
                          f" {self.element.name}, and has {len(data)}")
        if self.element.is_packed:
            return self._unpacked(data)
        if not self.numel():
            return tensor([], dtype=self.dtype).reshape(self.shape)
        found = None if data.readonly else frombuffer(data, dtype=self.dtype)
        if found is None or found.data_ptr() % self.dtype.itemsize:
            found = frombuffer(bytearray(data), dtype=self.dtype)
        return found if len(self.shape) == 1 else found.reshape(self.shape)

    def _unpacked(self, data: Any) -> Any:
        import numpy  # noqa: PLC0415

        given, bits = numpy.frombuffer(data, numpy.uint8), self.element.bits
        parts = [given >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
        codes = numpy.stack(parts, 1).reshape(-1)[: self.numel()]
        return self._of_codes(codes).reshape(self.shape)

    def _of_codes(self, codes: Any) -> Any:
        """Elements of under 8 bits, from their bits."""
        import numpy  # noqa: PLC0415

        bits = self.element.bits
        if self.element.name == "FLOAT4E2M1":
            half = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], numpy.float32)
            return from_numpy(numpy.concatenate([half, -half])[codes])
        if self.element.name.startswith("INT"):
            sign = 1 << bits - 1
            return from_numpy(((codes.astype(numpy.int8) ^ sign) - sign).astype(numpy.int8))
        return from_numpy(codes.astype(numpy.uint8))

    def _from_numbers(self) -> Any:
        """Elements that the file has one by one: floats, or integers that stand for bits of narrower types."""
        import numpy  # noqa: PLC0415

        name = self.element.name
        if self.reals:
            width = self.reals[0][0]
            if any(len(part) % width for _, part in self.reals):
                raise damaged(f"the floats of tensor {self.name!r} were cut off")
            array = numpy.concatenate([numpy.frombuffer(part, f"<f{w}") for w, part in self.reals])
            if name.startswith("COMPLEX"):
                if len(array) % 2:
                    raise damaged(f"tensor {self.name!r} has half a complex number")
                array = array.view(f"c{2 * width}")
            self._check(len(array), "numbers")
            return from_numpy(numpy.ascontiguousarray(array)).to(self.dtype).reshape(self.shape)
        parts = [packed_integers(p) if isinstance(p, memoryview) else numpy.array([p], numpy.uint64).view(numpy.int64)
                 for p in self.integers]
        array = parts[0] if len(parts) == 1 else numpy.concatenate(parts) if parts else numpy.zeros(0, numpy.int64)
        if self.element.is_packed:
            return self._unpacked(array.astype(numpy.uint8).tobytes()[: self._size()]) if len(
                array) == self._size() else self._short(len(array))
        self._check(len(array), "numbers")
        bits = {"FLOAT16": 2, "BFLOAT16": 2}.get(name, 1 if name.startswith("FLOAT8") else 0)
        if bits:
            narrow = array.astype(numpy.uint16 if bits == 2 else numpy.uint8)
            carried = from_numpy(narrow.view(numpy.int16) if bits == 2 else narrow)
            return carried.view(self.dtype).reshape(self.shape)
        if name == "BOOL":
            return from_numpy(array != 0).reshape(self.shape)
        if name == "UINT64":
            return from_numpy(array.view(numpy.uint64)).reshape(self.shape)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            if len(array):
                raise damaged(f"tensor {self.name!r} of {name} has integers for elements")
            return tensor([], dtype=self.dtype).reshape(self.shape)
        if name != "INT64":
            array = array.astype(f"{'u' if name.startswith('U') else 'i'}{self.element.bits // 8}")
        return from_numpy(array).reshape(self.shape)

    def _short(self, count: int) -> Any:
        raise damaged(f"tensor {self.name!r} of shape {list(self.shape)} has {count} bytes")

    def _strings(self) -> Any:
        import numpy  # noqa: PLC0415

        if self.raw is not None or self.is_external:
            raise damaged(f"tensor {self.name!r} holds strings as raw bytes")
        self._check(len(self.strings), "strings")
        found = numpy.empty(len(self.strings), object)
        found[:] = [str(s, "utf-8", "surrogateescape") for s in self.strings]
        return found.reshape(self.shape)


@dataclasses.dataclass
class SparseStored:
    """A tensor that is 0 but for some elements. Read as a dense one."""

    name: str
    values: Stored
    indices: Stored
    shape: tuple[int, ...]
    folder: Any = None
    LARGEST = 2**28

    @property
    def element(self) -> Element:
        return self.values.element

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def load(self) -> Any:
        import numpy  # noqa: PLC0415

        count = math.prod(self.shape)
        if any(n < 0 for n in self.shape) or count > self.LARGEST:
            raise damaged(f"sparse tensor {self.name!r} of shape {list(self.shape)} has {count} elements when it is"
                          f" dense, and {self.LARGEST} are allowed")
        values, indices = self.values.load(), self.indices.load().numpy()
        if indices.ndim == 2 and indices.shape[1] == len(self.shape):
            if indices.size and ((indices < 0).any() or (indices >= numpy.array(self.shape)).any()):
                raise damaged(f"sparse tensor {self.name!r} has an index outside of {list(self.shape)}")
            indices = numpy.ravel_multi_index(tuple(indices.T), self.shape)
        if indices.shape != (values.numel(),) or (indices.size and (indices.min() < 0 or indices.max() >= count)):
            raise damaged(f"sparse tensor {self.name!r} has indices that do not fit its values or its shape")
        dense = numpy.zeros(count, values.numpy().dtype)
        dense[indices] = values.numpy()
        return from_numpy(dense.reshape(self.shape))


class Folder:
    """The folder of a model, from which elements of tensors may be mapped."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.maps: dict[str, mmap.mmap] = {}

    def bytes_of(self, name: str, place: dict[str, str], expected: int) -> Any:
        """Memory of one tensor, in a map of the file that it says."""
        location = place.get("location", "")
        offset, length = self._number(name, place, "offset", 0), self._number(name, place, "length", None)
        if not expected:
            return memoryview(b"")
        mapped = self._map(name, location)
        length = expected if length is None else length
        if length != expected:
            raise damaged(f"tensor {name!r} takes {expected} bytes, and has {length} in {location!r}")
        if offset + length > len(mapped):
            raise ValueError(f"onnx: tensor {name!r} lies at {offset} to {offset + length} of {location!r}, which has"
                             f" {len(mapped)} bytes. The file is cut off, or not the one that belongs to the model.")
        return memoryview(mapped)[offset : offset + length]

    @staticmethod
    def _number(name: str, place: dict[str, str], key: str, default: int | None) -> Any:
        word = place.get(key)
        if word is None:
            return default
        if not (word.isascii() and word.isdigit() and len(word) < 20):
            raise damaged(f"tensor {name!r} has the {key} {word!r}, which is no number")
        return int(word)

    def _map(self, name: str, location: str) -> mmap.mmap:
        if location in self.maps:
            return self.maps[location]
        refusal = f"onnx: tensor {name!r} says that it lies in {location!r}, "
        if not location or "\0" in location:
            raise ValueError(refusal + "which is no name of a file")
        if os.path.isabs(location) or location.startswith(("\\", "/")) or location[1:2] == ":":
            raise ValueError(refusal + "an absolute path. Only files in the model's own folder are read.")
        if ".." in location.replace("\\", "/").split("/"):
            raise ValueError(refusal + "outside of the model's folder. Only files in the model's own folder are read.")
        path = os.path.join(self.path, location)
        if os.path.realpath(path) != os.path.abspath(path):
            raise ValueError(refusal + "a link. Only files in the model's own folder are read.")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"onnx: tensor {name!r} lies in {location!r}, and there is no such file beside the"
                                    f" model (in {self.path}). Put it there.")
        self.maps[location] = map_file(path)
        return self.maps[location]


def map_file(path: str) -> Any:
    """The bytes of a file, mapped: read when they are used; what is written stays in memory."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
