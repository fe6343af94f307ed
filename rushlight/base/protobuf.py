"""What every writer and reader of protocol buffers needs: kinds of fields, and integers of as many bytes as they need.

Enters: integers, or messages as bytes. Leaves: their bytes on the wire, or fields by number. ONNX files and
TensorBoard's events are written with it, ONNX files read. Refuses: bytes that are no message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """An integer, seven bits to a byte, the lowest first; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def fields(data: Any) -> Iterator[tuple[int, Any]]:
    """The fields of a message that was written: numbers, and integers, floats or memory. Refuses what is no message."""
    view, at = memoryview(data), 0

    def integer() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(view) or shift > 63:
                raise ValueError("this is no protocol buffer, or one that was cut off")
            byte = view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(view):
        tag = integer()
        field, kind = tag >> 3, tag & 7
        if kind == VARINT:
            yield field, integer()
            continue
        length = {LENGTH: None, FIXED32: 4, FIXED64: 8}.get(kind, -1)
        length = integer() if length is None else length
        if length < 0 or at + length > len(view):
            raise ValueError("this is no protocol buffer, or one that was cut off")
        piece, at = view[at : at + length], at + length
        yield field, struct.unpack("<f", piece)[0] if kind == FIXED32 else piece
