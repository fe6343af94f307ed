"""What a profile saw of memory, as a snapshot that `_memory_viz` draws.

Enters: a profile made with `profile_memory`, `record_shapes` and `with_stack`. Leaves: a snapshot with a trace and a
segment for each CUDA unit, and the host's memory as one device more. Each allocation says what it was for (parameter,
gradient, activation, ...) and its stack of Python frames. Refuses what the profile itself refuses: a ValueError where
one of the three was off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..devices.cuda import find

CPU = 0                   # PyTorch's number of that kind of device


def snapshot_of(profile: Any) -> dict[str, Any]:
    """The snapshot."""
    device = find()
    units = device.device_count() if device is not None else 0
    traces: list[list[tuple[int, int, dict[str, Any]]]] = [[] for _ in range(units + 1)]
    blocks: list[list[dict[str, Any]]] = [[] for _ in range(units + 1)]
    for number, held in enumerate(profile._memory_profile().allocations()):
        where = units if held.device[0] == CPU else held.device[1]
        entry = {"addr": held.address, "size": held.num_bytes, "stream": 0, "category": held.category,
                 "frames": [{"filename": "none", "line": 0, "name": name} for name in held.stack]}
        if held.begin >= 0:
            traces[where].append((held.begin, number, {"action": "alloc", **entry, "time_us": held.begin // 1000}))
        if held.end >= 0:
            for action in ("free_requested", "free_completed"):
                traces[where].append((held.end, number, {"action": action, **entry, "time_us": held.end // 1000}))
        else:
            blocks[where].append(entry)
    return {
        "device_traces": [[entry for *_, entry in sorted(found, key=lambda one: one[:2])] for found in traces],
        "segments": [
            segment(number, [entry for *_, entry in traces[number]], blocks[number])
            for number in range(units + 1) if traces[number] or blocks[number]
        ],
    }


def segment(device: int, seen: list[dict[str, Any]], left: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """All addresses that were seen as one segment; `left` are those held at the end, with free memory in between."""
    left = sorted(left, key=lambda entry: entry["addr"])
    begin = min(entry["addr"] for entry in (*seen, *left))
    end = max(entry["addr"] + entry["size"] for entry in (*seen, *left))
    made, at = [], begin
    for entry in left:
        if entry["addr"] > at:
            made.append({"size": entry["addr"] - at, "state": "inactive", "requested_size": 0, "frames": []})
        made.append({"size": entry["size"], "state": "active_allocated", "requested_size": entry["size"],
                     "frames": entry["frames"]})
        at = entry["addr"] + entry["size"]
    if end > at:
        made.append({"size": end - at, "state": "inactive", "requested_size": 0, "frames": []})
    return {"device": device, "address": begin, "total_size": end - begin, "stream": 0, "blocks": made,
            "allocated_size": sum(entry["size"] for entry in left), "frames": []}
