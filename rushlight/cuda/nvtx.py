"""`torch.cuda.nvtx`: marks for NVIDIA's profilers.

Enters: messages. Leaves: ranges and marks that a profiler shows, through NVIDIA's library where it is installed
(libnvToolsExt, or libnvtx3interop of newer wheels). Without it, or with no profiler listening, calls do nothing and
answer what the library then answers: a depth of -2, a range of 0. Refuses: to mark where there is no CUDA device, as
PyTorch built for the CPU alone does.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from ..devices.cuda import libraries
from .no_device import found

NAMES = ("libnvToolsExt.so.1", "libnvtx3interop.so.1", "libnvtx3interop.so")
NOT_TRACKED = -2      # what the library answers where nobody listens

__all__ = ["range", "mark", "range_end", "range_pop", "range_push", "range_start"]


@functools.cache
def _library() -> Any:
    for path in libraries.places(NAMES):
        try:
            library = ctypes.CDLL(path)
            library.nvtxRangeStartA.restype = ctypes.c_uint64
            library.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
            return library
        except (OSError, AttributeError):
            continue
    return None


def _checked() -> Any:
    if found() is None:
        raise RuntimeError("cuda.nvtx: NVTX functions not installed: this build of Rushlight has no CUDA devices")
    return _library()


def range_push(msg: str) -> int:
    """Open a range on this thread's stack; its depth, from 0 on."""
    library = _checked()
    return NOT_TRACKED if library is None else library.nvtxRangePushA(str(msg).encode())


def range_pop() -> int:
    """Close the innermost range; its depth."""
    library = _checked()
    return NOT_TRACKED if library is None else library.nvtxRangePop()


def range_start(msg: str) -> int:
    """Open a range that any thread may close by what is returned."""
    library = _checked()
    return 0 if library is None else library.nvtxRangeStartA(str(msg).encode())


def range_end(range_id: int) -> None:
    """Close a range of `range_start`."""
    library = _checked()
    if library is not None:
        library.nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """A mark at this moment."""
    library = _checked()
    if library is not None:
        library.nvtxMarkA(str(msg).encode())


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range for a block, or for each call of a function; the message is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
