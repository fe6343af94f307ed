"""`.safetensors` files: a JSON header with names, dtypes, shapes and places, then the bytes of the tensors.

Enters: a path. Leaves: a dict of tensors; or a file, from such a dict. Refuses headers whose places do not fit the
shapes or leave the file. For everything else with such files, the safetensors package itself works on Rushlight's
tensors.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from .. import _C
from .._C import Tensor
from .sources import Source, source_of

_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
}
_LONGEST_HEADER = 100_000_000


def _bad(what: str) -> RuntimeError:
    return RuntimeError(f"load: not a valid safetensors file: {what}")


def load_file(path: str, device: Any = "cpu") -> dict[str, Tensor]:
    """All tensors of a file, in the order of their bytes."""
    with open(path, "rb") as file:
        source = source_of(file)
        start, header = _header(source)
        result = {name: _tensor(source, start, name, entry) for name, entry in header.items() if name != "__metadata__"}
    return result if str(device) == "cpu" else {name: t.to(device) for name, t in result.items()}


class TensorFile:
    """A file whose tensors are read one by one, within a `with`."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "rb")  # noqa: SIM115 - closed by __exit__
        try:
            self.source = source_of(self.file)
            self.start, self.header = _header(self.source)
        except BaseException:
            self.file.close()
            raise
        self.metadata = self.header.pop("__metadata__", {})

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.close()

    def read(self, name: str) -> Tensor:
        """One tensor."""
        if name not in self.header:
            raise KeyError(f"there is no tensor {name!r} in {self.file.name}")
        return _tensor(self.source, self.start, name, self.header[name])

    def layout(self, name: str) -> tuple[tuple[int, ...], Any]:
        """(sizes, dtype) of a tensor."""
        entry = self.header[name]
        return tuple(entry["shape"]), getattr(_C, _DTYPES[entry["dtype"]])


def save_file(tensors: dict[str, Tensor], stream: Any, metadata: dict[str, str] | None = None) -> None:
    """Write tensors of host memory, one behind the other, in the order of the dict."""
    codes = {getattr(_C, ours): code for code, ours in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    place = 0
    for name, t in tensors.items():
        if t.dtype not in codes:
            raise ValueError(f"{name}: safetensors files have no {t.dtype}")
        size = t.numel() * t.itemsize
        header[name] = {"dtype": codes[t.dtype], "shape": list(t.shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    stream.write(struct.pack("<Q", len(text)))
    stream.write(text)
    for t in tensors.values():
        if t.numel():
            whole = t.detach().contiguous().resolve_conj().resolve_neg()
            start = whole.storage_offset() * whole.itemsize
            stream.write(memoryview(whole.untyped_storage())[start : start + whole.numel() * whole.itemsize])


def _header(source: Source) -> tuple[int, dict]:
    """Where the bytes of the tensors begin, and what the header says."""
    head = source.read(0, 8)
    size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
    if not 0 < size <= min(source.size - 8, _LONGEST_HEADER):
        raise _bad(f"a header of {size} bytes in a file of {source.size}")
    try:
        header = json.loads(source.read(8, size))
    except (ValueError, RecursionError) as error:
        raise _bad(f"the header is no JSON ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise _bad("the header is no object")
    return 8 + size, header


def _tensor(source: Source, start: int, name: str, entry: Any) -> Tensor:
    try:
        dtype = getattr(_C, _DTYPES[entry["dtype"]])
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        is_sound = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        raise _bad(f"what is said of {name!r} makes no sense: {str(entry)[:100]}") from None
    if not is_sound or end - begin != math.prod(shape) * dtype.itemsize or start + end > source.size:
        raise _bad(f"the place of {name!r} does not fit its shape {shape} or the file")
    result = _C.empty(tuple(shape), None, dtype, None)
    if (
        end > begin
        and source.read_into(start + begin, memoryview(result.untyped_storage())[: end - begin]) != end - begin
    ):
        raise _bad("the file was cut short")
    return result
