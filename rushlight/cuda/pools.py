"""Pools of device memory of one's own: `MemPool`, `use_mem_pool`, and allocators that somebody else wrote.

Enters: a pool, perhaps with a library's functions that give and take memory. Leaves: tensors made within
`use_mem_pool(pool)` whose memory is the pool's, also after they are gone: it serves the pool's next tensors and nobody
else's, until the pool itself is dropped. An allocator may also serve all memory (`change_current_allocator`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import _C
from .allocators import CUDAPluggableAllocator, _CUDAAllocator
from .no_device import _no_device, _real, found


class MemPool:
    """Memory of its own, on every unit and stream that it is used on. `allocator`: where it comes from,
    `CUDAPluggableAllocator(...).allocator()`; None: the device. `use_on_oom`: what it has free serves others before a
    full device is an error. `no_split`: each tensor gets a segment of its own."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if found() is None:
            _no_device("MemPool")
        if allocator is not None and not isinstance(allocator, _CUDAAllocator):
            raise TypeError(
                f"cuda.MemPool: expected CUDAPluggableAllocator(...).allocator(), got {type(allocator).__name__}"
            )
        self.allocator = allocator
        addresses = (0, 0) if allocator is None else (allocator.take, allocator.give)
        self._number, self._uses = _C.new_memory_pool(*addresses, bool(use_on_oom), bool(no_split)), 1

    @property
    def id(self) -> tuple[int, int]:
        """What names the pool to `cuda.graph`."""
        return (0, self._number)

    def use_count(self) -> int:
        """One, and one for each `use_mem_pool` it is in."""
        return self._uses

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The segments it holds, as `cuda.memory_snapshot` has them."""
        return _real().memory_snapshot(self.id, include_traces)

    def __del__(self) -> None:
        if getattr(self, "_number", 0) and _C is not None:
            _C.release_memory_pool(self._number)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """What this thread allocates on a unit within the block is the pool's memory."""
    if not isinstance(pool, MemPool):
        raise TypeError(f"cuda.use_mem_pool: expected a MemPool, got {type(pool).__name__}")
    unit = _real().unit_of(device)
    _C.choose_memory_pool(pool._number, unit)
    pool._uses += 1
    try:
        yield
    finally:
        pool._uses -= 1
        _C.choose_memory_pool(0, unit)


__all__ = ["CUDAPluggableAllocator", "MemPool", "use_mem_pool"]
