"""What the caching allocator of a plugged-in device holds, in PyTorch's words.

Enters: a device. Leaves: counts and bytes. Tensors are cut from segments that the device gave; freed memory stays with
the stream it was used on until `empty_cache`, or until the device has no more: then what is cached goes back first, and
only if that is not enough `OutOfMemoryError` is raised.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import sources

MOST_HOLDERS = 5
SIZES = ("all", "small_pool", "large_pool")
PACKAGE = os.path.join(sources.PACKAGE, "")
made_at: dict[int, list[dict[str, Any]]] = {}    # stacks of who asked for blocks in use, by address, while recorded

Observer = Callable[[int, int, int, int], object]
observers: list[Observer] = []                   # of CUDA units that are full
room_of: dict[str, Callable[[int], tuple[int, int]]] = {}      # by type of device: bytes free and in all, of a unit


def memory_stats(device: _C.device) -> OrderedDict[str, int]:
    """Bytes in use and held, now and at the peak, and how often memory was asked for. Idle pieces of segments
    (`inactive_split`) are counted when asked: their peak is what they are now."""
    counted, single = _C.unit_stats(device)
    stats: OrderedDict[str, int] = OrderedDict()
    for name, numbers in {**counted, **idle_pieces(device)}.items():
        stats.update(zip([f"{name}.{part}" for part in ("current", "peak", "allocated", "freed")], numbers))
    names = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")
    stats.update(zip(names, single))
    return OrderedDict(sorted(stats.items()))


def idle_pieces(device: _C.device) -> dict[str, tuple[int, int, int, int]]:
    """How many free blocks lie in segments that are partly in use, and their bytes, of small requests and large."""
    counts = {f"{kind}.{size}": 0 for kind in ("inactive_split", "inactive_split_bytes") for size in SIZES}
    for _, _, _, is_large, blocks, _, _ in _C.unit_snapshot(device):
        free = [size for _, size, state, _ in blocks if state == "inactive"] if len(blocks) > 1 else []
        for part in ("all", SIZES[1 + is_large]):
            counts[f"inactive_split.{part}"] += len(free)
            counts[f"inactive_split_bytes.{part}"] += sum(free)
    return {name: (count, count, count, 0) for name, count in counts.items()}


def reset_peak_memory_stats(device: _C.device) -> None:
    """Peaks start anew from what is in use now."""
    _C.unit_stats(device, 1)


def empty_cache(device: _C.device) -> None:
    """Give memory that no tensor uses back to the device; waits for what is queued there."""
    _C.empty_unit_cache(device)


def attach_out_of_memory_observer(observer: Observer) -> None:
    """`observer(unit, bytes asked for, bytes of the unit, bytes free)` is called when a CUDA unit is full, before
    OutOfMemoryError is raised: `cuda.memory._dump_snapshot` can look then. Refuses what is no function (TypeError)."""
    if not callable(observer):
        raise TypeError(f"attach_out_of_memory_observer: expected a function, got {type(observer).__name__}")
    observers.append(observer)


def full(kind: str, index: int, nbytes: int) -> str:
    """A unit has no room for `nbytes`: observers are told (what they raise is printed, the error to come is another),
    and who holds most of its memory is for the message."""
    if kind == "cuda" and observers:
        free, total = room_of[kind](index)
        for observer in observers:
            try:
                observer(index, nbytes, total, free)
            except Exception:
                sys.excepthook(*sys.exc_info())
    return holders(kind, index)


def holders(kind: str, index: int) -> str:
    """Who holds most of a unit's memory."""
    counts: Counter[tuple[int, str]] = Counter()
    for *_, blocks, _, _ in _C.unit_snapshot(_C.device(kind, index)):
        for address, size, state, _ in blocks:
            if state == "active_allocated":
                counts[size, users_line(made_at.get(address, []))] += 1
    largest = sorted(counts.items(), key=lambda item: -item[0][0] * item[1])[:MOST_HOLDERS]
    told = ", ".join(f"{n} x {size / 2**20:,.1f} MiB{where}" for (size, where), n in largest)
    advice = "" if made_at else " (cuda._record_memory_history() before tells where they were made)"
    return f" The largest holders: {told}{advice}." if told else ""


def users_line(frames: list[dict[str, Any]]) -> str:
    """Where a program asked for a block; nothing where nobody recorded it."""
    own = next((f for f in frames if not f["filename"].startswith(PACKAGE)), None)
    return f" made at {own['filename']}:{own['line']}" if own else ""


_C.set_full_report(full)
