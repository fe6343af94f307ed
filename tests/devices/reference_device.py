"""A device written only through the public plug-in interface: its addresses are not host addresses.

Every address carries a tag in its upper bits, so any attempt of the framework to read device memory directly faults.
Kernels are the host's machine code, run on untagged addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from rushlight import codegen
from rushlight.devices import Device

TAG = 1 << 60


class ReferenceDevice(Device):
    """Host memory behind tagged addresses."""

    def __init__(self, name: str = "refdev") -> None:
        self.name = name
        self.buffers: dict[int, Any] = {}
        self.launches = 0

    def allocate(self, nbytes: int, index: int) -> int:
        buffer = (ctypes.c_char * (nbytes + 64))()
        address = (ctypes.addressof(buffer) + 63) // 64 * 64
        self.buffers[address] = buffer
        return address | TAG

    def free(self, address: int, nbytes: int, index: int) -> None:
        del self.buffers[address & ~TAG]

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(target & ~TAG, source, nbytes)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(target, source & ~TAG, nbytes)

    def copy_within(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(target & ~TAG, source & ~TAG, nbytes)

    def load(self, nest: Any) -> Any:
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return prototype(codegen.compile(nest).address)

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        self.launches += 1
        constants = [
            ctypes.create_string_buffer(p, max(16, len(p))) if isinstance(p, bytes) else None for p in pointers
        ]
        real = [ctypes.addressof(c) if c is not None else p & ~TAG for p, c in zip(pointers, constants, strict=True)]
        handle((ctypes.c_void_p * len(real))(*real), (ctypes.c_int64 * max(1, len(params)))(*params), begin, end)
