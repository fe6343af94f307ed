"""The null device: the smallest device there is. It has memory but runs nothing, and remembers what it was asked.

Useful to see which kernels a program launches without running them, and as the example to start a device from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Device


class NullDevice(Device):
    """Addresses are numbers, copies do nothing, kernels are their printed nests."""

    name = "null"

    def __init__(self) -> None:
        self.launched: list[str] = []
        self._next = 64

    def allocate(self, nbytes: int, index: int) -> int:
        address, self._next = self._next, self._next + (nbytes + 63) // 64 * 64
        return address

    def free(self, address: int, nbytes: int, index: int) -> None:
        """Addresses are never used twice."""

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        """There is nowhere to copy to."""

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        raise RuntimeError("null: this device holds no data to copy back")

    def copy_within(self, target: int, source: int, nbytes: int, index: int) -> None:
        """There is nothing to copy."""

    def load(self, nest: Any) -> str:
        return str(nest)

    def launch(
        self, handle: str, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        self.launched.append(handle)
