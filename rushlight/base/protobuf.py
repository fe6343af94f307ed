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
    end = len(view)
    while at < end:
        tag, at = (view[at], at + 1) if view[at] < 0x80 else _integer(view, at)
        kind = tag & 7
        if kind == LENGTH:
            length, at = (view[at], at + 1) if at < end and view[at] < 0x80 else _integer(view, at)
        elif kind == VARINT:
            value, at = (view[at], at + 1) if at < end and view[at] < 0x80 else _integer(view, at)
            yield tag >> 3, value
            continue
        else:
            length = {FIXED32: 4, FIXED64: 8}.get(kind, end)
        after = at + length
        if after > end:
            raise ValueError("this is no protocol buffer, or one that was cut off")
        piece, at = view[at:after], after
        yield tag >> 3, struct.unpack("<f", piece)[0] if kind == FIXED32 else piece


def _integer(view: memoryview, at: int) -> tuple[int, int]:
    """An integer of as many bytes as it has, and where it ends."""
    value = shift = 0
    while at < len(view) and shift < 64:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("this is no protocol buffer, or one that was cut off")
