"""What the caching allocator of a plugged-in device holds, in PyTorch's words.

Enters: a device. Leaves: counts and bytes. Tensors are cut from segments that the device gave; freed memory stays with
the stream it was used on until `empty_cache`, or until the device has no more: then what is cached goes back first, and
only if that is not enough `OutOfMemoryError` is raised.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .. import _C


def memory_stats(device: Any) -> OrderedDict[str, int]:
    """Bytes in use and held, now and at the peak, and how often memory was asked for."""
    found = _C.unit_stats(device)
    stats: OrderedDict[str, int] = OrderedDict()
    stats["allocated_bytes.all.current"] = found["allocated"]
    stats["allocated_bytes.all.peak"] = found["peak_allocated"]
    stats["allocated_bytes.all.allocated"] = found["total_allocated"]
    stats["allocated_bytes.all.freed"] = found["total_freed"]
    stats["allocation.all.current"] = found["allocations"] - found["frees"]
    stats["allocation.all.allocated"] = found["allocations"]
    stats["allocation.all.freed"] = found["frees"]
    stats["reserved_bytes.all.current"] = found["reserved"]
    stats["reserved_bytes.all.peak"] = found["peak_reserved"]
    stats["segment.all.current"] = found["segments"]
    stats["num_alloc_retries"] = found["retries"]
    stats["num_ooms"] = found["failures"]
    return stats


def reset_peak_memory_stats(device: Any) -> None:
    """Peaks start anew from what is in use now."""
    _C.unit_stats(device, True)


def empty_cache(device: Any) -> None:
    """Give memory that no tensor uses back to the device; waits for what is queued there."""
    _C.empty_unit_cache(device)
