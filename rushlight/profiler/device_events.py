"""What a device did during a recording: kernels, copies, fills, and the calls of its runtime that asked for them.

Enters: a recording and rows of (name, device, stream, begin ns, end ns, category, row of the launching op or -1, args).
Leaves: the same recording with these rows under "device"; events, averages, tables and traces read them there.
Times are those of the recording's clock (`profile_now`). Categories are those of Kineto's traces: `kernel`,
`gpu_memcpy`, `gpu_memset`, `gpu_user_annotation`, `cuda_sync` lie on a device and a stream of it; `cuda_runtime`,
`cuda_driver` and `overhead` on the host: their device is -1 and their stream the native number of the calling thread.
`args` goes into the trace as it is; its "correlation" joins a runtime call with what it started (the `ac2g` arrows).
Refuses: categories it does not know, and rows whose launching op is not in the recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

ON_DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"))
WORK = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))      # whose time is that of the op that asked for it
ON_HOST = frozenset(("cuda_runtime", "cuda_driver", "overhead"))


class DeviceEvent(NamedTuple):
    """One thing a device did, or one call of its runtime (`device` -1, `stream` the calling thread)."""

    name: str
    device: int
    stream: int
    begin: int
    end: int
    category: str
    row: int                     # of the op that launched it, in the recording; -1: unknown
    args: dict[str, Any]


def add_device_events(recording: dict[str, Any], rows: Iterable[Iterable[Any]]) -> None:
    """Put what a device did into `recording`, in the order of its beginning."""
    events = [DeviceEvent(*row) for row in rows]
    count = len(recording["columns"]["begin"]) // 8
    for event in events:
        if event.category not in ON_DEVICE | ON_HOST:
            raise ValueError(f"add_device_events: unknown category {event.category!r} of {event.name!r}")
        if not -1 <= event.row < count:
            raise ValueError(f"add_device_events: {event.name!r} names row {event.row} of a recording with {count}")
    recording["device"] = sorted((*recording.get("device", ()), *events), key=lambda event: (event.begin, -event.end))
