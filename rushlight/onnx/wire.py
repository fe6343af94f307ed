"""Protocol buffers' wire format: messages as the few bytes that they are.

Enters: fields by number. Leaves: `Message`s, whose parts may be memory of tensors: nothing is copied until it is
written to a file. ONNX files need nothing else of protobuf, so that neither it nor `onnx` has to be installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from ..base.protobuf import FIXED32, LENGTH, VARINT, fields, varint

__all__ = ["Message", "fields"]


class Message:
    """A message under construction: pieces of bytes, and how many they are together."""

    __slots__ = ("length", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.length = 0

    def put(self, piece: Any, length: int | None = None) -> None:
        """Bytes, as they are."""
        self.pieces.append(piece)
        self.length += len(piece) if length is None else length

    def integer(self, field: int, value: int) -> Message:
        """An integer, an enumeration or a truth."""
        self.put(varint(field << 3 | VARINT) + varint(int(value)))
        return self

    def real(self, field: int, value: float) -> Message:
        """A float of 32 bits."""
        self.put(varint(field << 3 | FIXED32) + struct.pack("<f", value))
        return self

    def data(self, field: int, value: Any) -> Message:
        """Bytes, or the memory of a tensor (a memoryview of bytes)."""
        self.put(varint(field << 3 | LENGTH) + varint(len(value)))
        self.put(value)
        return self

    def text(self, field: int, value: str) -> Message:
        """A string."""
        return self.data(field, value.encode())

    def message(self, field: int, value: Message) -> Message:
        """A message inside of this one."""
        self.put(varint(field << 3 | LENGTH) + varint(value.length))
        self.pieces.extend(value.pieces)
        self.length += value.length
        return self

    def integers(self, field: int, values: Iterable[int]) -> Message:
        """Repeated integers, packed."""
        return self.data(field, b"".join([varint(int(v)) for v in values]))

    def reals(self, field: int, values: Iterable[float]) -> Message:
        """Repeated floats, packed."""
        return self.data(field, b"".join([struct.pack("<f", v) for v in values]))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)
