"""What every writer of protocol buffers needs: kinds of fields, and integers of as many bytes as they need.

Enters: integers. Leaves: their bytes on the wire. ONNX files and TensorBoard's events are written with it.
"""

from __future__ import annotations

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
