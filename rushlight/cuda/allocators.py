"""Allocators that somebody else wrote: functions of a shared library that give and take back device memory.

Enters: a library's path and two names. Leaves: an allocator for `MemPool`, or for all memory
(`change_current_allocator`), a call for each tensor. Refuses: to change the allocator once memory was taken.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .. import _C
from ..devices.cuda import settings

caching = [True]
chosen: list[_CUDAAllocator] = []     # by change_current_allocator


class _CUDAAllocator:
    """The addresses of two functions, void* take(size_t, int device, stream) and
    void give(void*, size_t, int device, stream)."""

    def __init__(self, take: int, give: int) -> None:
        self.take, self.give = take, give

    def allocator(self) -> _CUDAAllocator:
        """Itself: PyTorch's wrapper has such a method."""
        return self


def choose(allocator: Any, is_late: bool) -> None:
    """All memory comes from an allocator, as long as there is none yet."""
    if not isinstance(allocator, _CUDAAllocator):
        raise TypeError(
            f"change_current_allocator: expected a CUDAPluggableAllocator, got {type(allocator).__name__}"
        )
    if is_late:
        raise RuntimeError(
            "change_current_allocator: an allocator that is already initialized cannot be changed: tensors have its"
            " memory. Call this before the first tensor on a CUDA device is made."
        )
    chosen[:] = [allocator]
    _C.set_memory_source(allocator.take, allocator.give, True)


def enable_caching(value: bool) -> None:
    """Whether freed memory is kept, or each tensor's is the driver's own; an allocator of the program's stays."""
    caching[0] = value
    if not chosen:
        _C.set_memory_source(*(settings.current.source() if value else _C.cuda_memory_source(False)))


class CUDAPluggableAllocator(_CUDAAllocator):
    """Memory from two functions of a shared library."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        self._library = ctypes.CDLL(path_to_so_file)
        take, give = (getattr(self._library, name) for name in (alloc_fn_name, free_fn_name))
        super().__init__(ctypes.cast(take, ctypes.c_void_p).value, ctypes.cast(give, ctypes.c_void_p).value)
