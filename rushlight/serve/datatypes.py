"""Types of elements by the names that KServe's protocol gives them, and values written as JSON.

Enters: lists of numbers, truths or words; or bytes. Leaves: bytes as tensors hold them (little-endian, in C's order);
or lists. Refuses: values that the type cannot hold, lists of uneven length, and counts that do not fit a shape.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import chain
from math import isfinite, isnan, prod as count
from typing import Any

from .refusals import Refusal

# By KServe's name: bytes of an element, the code of `array` (or `struct`), and rushlight's name.
NUMBERS: dict[str, tuple[int, str, str]] = {
    "BOOL": (1, "B", "bool"), "UINT8": (1, "B", "uint8"), "UINT16": (2, "H", "uint16"), "UINT32": (4, "I", "uint32"),
    "UINT64": (8, "Q", "uint64"), "INT8": (1, "b", "int8"), "INT16": (2, "h", "int16"), "INT32": (4, "i", "int32"),
    "INT64": (8, "q", "int64"), "FP16": (2, "e", "float16"), "BF16": (2, "", "bfloat16"), "FP32": (4, "f", "float32"),
    "FP64": (8, "d", "float64"),
}
BYTES = "BYTES"
TENSOR = "tensor"      # for workers, in place of a content's type: elements as bytes
NAMES = {row[2]: name for name, row in NUMBERS.items()}
MAX_RANK = 64


def flat(values: Any, what: str) -> tuple[list[Any], list[int]]:
    """A nested list as one list, and the sizes it has."""
    if not isinstance(values, list):
        raise Refusal(400, f"{what}: expected a list as data, got {type(values).__name__}")
    shape = [len(values)]
    while values and isinstance(values[0], list):
        length = len(values[0])
        if not all(isinstance(v, list) and len(v) == length for v in values):
            raise Refusal(400, f"{what}: expected lists of the same length beside each other, got uneven ones")
        if len(shape) == MAX_RANK:
            raise Refusal(400, f"{what}: expected at most {MAX_RANK} lists in each other")
        shape.append(length)
        values = list(chain.from_iterable(values))
    return values, shape


def encoded(values: list[Any], datatype: str, what: str) -> bytes:
    """Values, as bytes of their type."""
    if datatype == BYTES:
        wrong = next((v for v in values if type(v) is not str), None)
        if not all(type(v) is str for v in values):
            raise Refusal(400, f"{what}: expected strings as BYTES, got {_shown(wrong)}")
        try:
            return joined([v.encode() for v in values])
        except UnicodeEncodeError as error:
            raise Refusal(400, f"{what}: expected strings that UTF-8 can write ({error.reason})") from None
    kinds = {bool} if datatype == "BOOL" else {int, float} if datatype in ("FP16", "BF16", "FP32", "FP64") else {int}
    if not kinds.issuperset(map(type, values)):
        wrong = next(v for v in values if type(v) not in kinds)
        raise Refusal(400, f"{what}: expected values of {datatype}, got {_shown(wrong)}")
    code = NUMBERS[datatype][1]
    try:
        if datatype == "BF16":
            return b"".join(_bfloat(v) for v in values)
        # `array` would take numbers beyond the largest for infinity.
        return struct.pack(f"<{len(values)}{code}", *values) if code in "ef" else array(code, values).tobytes()
    except (OverflowError, struct.error) as large:
        raise Refusal(400, f"{what}: a value is out of the range of {datatype} ({large})") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _bfloat(value: float) -> bytes:
    """The nearest bfloat16, to even where two are."""
    bits = int.from_bytes(struct.pack("<f", value), "little")
    if isfinite(value):
        bits += 0x7FFF + (bits >> 16 & 1)
    return (bits >> 16 | (0x40 if isnan(value) else 0)).to_bytes(2, "little")


def decoded(data: bytes | memoryview, datatype: str) -> list[Any]:
    """Bytes of a type, as values."""
    data = bytes(data)
    if datatype == BYTES:
        return [v.decode("utf-8", "replace") for v in parted(data, BYTES)]
    if datatype == "BF16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[::2], data[1::2]
        return array("f", bytes(wide)).tolist()
    code = NUMBERS[datatype][1]
    if code == "e":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    values = array(code, data).tolist()
    return list(map(bool, values)) if datatype == "BOOL" else values


def nested(values: list[Any], shape: Sequence[int]) -> Any:
    """One list as lists in each other, of these sizes."""
    if not shape:
        return values[0]
    for size in reversed(shape[1:]):
        rows = count(shape) if not size else len(values) // size
        values = [values[i * size : (i + 1) * size] for i in range(rows)] if size else [[] for _ in range(rows)]
    return values


def joined(words: Sequence[bytes]) -> bytes:
    """Words as BYTES lie in a tensor: each with its length before it."""
    return b"".join(struct.pack("<I", len(w)) + w for w in words)


def parted(data: bytes | memoryview, what: str) -> list[bytes]:
    """The words in the bytes of a tensor of BYTES."""
    data, at, found = bytes(data), 0, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little") if at + 4 <= len(data) else -1
        if length < 0 or at + 4 + length > len(data):
            raise Refusal(400, f"{what}: expected each word after its length in four bytes, got data that is cut off")
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found
