"""What the caching allocator holds, as PyTorch's memory viewer reads it and as a page of our own.

Enters: units. Leaves: snapshots (segments, their blocks, and where Python tensors of live blocks were made, if
`_record_memory_history` was on), pickles of them, and an HTML page with every segment as a bar.
"""

from __future__ import annotations

import html
import pickle
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _C
from ..devices.cuda import find, settings
from ..devices.memory import made_at, observers
from . import _memory_viz

_MOST_FRAMES = 64


class History:
    """Every block taken and given back, with the stack of who asked; off unless asked for."""

    def __init__(self) -> None:
        self.entries: dict[int, deque[dict[str, Any]]] = {}
        self.frames = made_at
        self.traces, self.stacks, self.most = True, True, 0
        self.skipped: frozenset[str] = frozenset()

    def start(self, enabled: str, context: str | None, most: int) -> None:
        self.traces, self.stacks, self.most = enabled == "all", context in ("all", "alloc", "state"), most
        self.entries = {unit: deque(entries, most) for unit, entries in self.entries.items()}
        self.stop()
        observers.insert(0, self.note_full)      # before those who look at the history
        _C.set_memory_history(self.note)

    def stop(self) -> None:
        """Remember no more; what was remembered stays."""
        if self.note_full in observers:
            observers.remove(self.note_full)
        _C.set_memory_history(None)

    def note(self, action: str, unit: int, address: int, size: int, stream: int) -> None:
        """Something happened to a block or a segment: what PyTorch calls an action."""
        if action == "alloc":
            frames = self.frames[address] = frames_here() if self.stacks else []
        elif action == "free_completed":
            frames = self.frames.pop(address, [])
        elif action == "free_requested":
            frames = self.frames.get(address, [])
        else:
            frames = frames_here() if self.stacks else []
        self.add(unit, {"action": action, "addr": address, "size": size, "stream": stream, "frames": frames})

    def note_full(self, unit: int, size: int, total: int, free: int) -> None:
        """There was no room for so many bytes."""
        self.add(unit, {"action": "oom", "device_free": free, "size": size, "stream": 0, "frames": frames_here()})

    def add(self, unit: int, entry: dict[str, Any]) -> None:
        if self.traces and entry["action"] not in self.skipped:
            entry |= {"time_us": time.time_ns() // 1000, "compile_context": "N/A", "user_metadata": ""}
            self.entries.setdefault(unit, deque(maxlen=self.most)).append(entry)


history = History()


def frames_here() -> list[dict[str, Any]]:
    """The caller's Python frames, innermost first, those that watch memory left out."""
    found, frame = [], sys._getframe(2)
    while frame is not None and frame.f_globals.get("observers") is observers:
        frame = frame.f_back
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        found.append({"filename": code.co_filename, "line": frame.f_lineno or 0, "name": code.co_qualname})
        frame = frame.f_back
    return found


def segments_of(index: int) -> list[dict[str, Any]]:
    """The segments of a unit in PyTorch's words."""
    found = []
    for address, total, stream, is_large, blocks, pool, grows in _C.unit_snapshot(_C.device("cuda", index)):
        used = sum(size for _, size, state, _ in blocks if state == "active_allocated")
        active = sum(size for _, size, state, _ in blocks if state != "inactive")
        asked = sum(asked for *_, asked in blocks)
        found.append({
            "device": index, "address": address, "total_size": total, "allocated_size": used, "active_size": active,
            "requested_size": asked, "stream": stream, "segment_type": "large" if is_large else "small",
            "segment_pool_id": (0, pool), "is_expandable": grows, "frames": [],
            "blocks": [{"address": at, "size": size, "requested_size": asked, "state": state,
                        "frames": history.frames.get(at, [])} for at, size, state, asked in blocks],
        })
    return found


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The segments of all units, or of one pool; without `include_traces`, none says where blocks were made."""
    found = [s for index in range(find().device_count()) for s in segments_of(index)]
    if mempool_id is not None:
        found = [s for s in found if s["segment_pool_id"] == tuple(mempool_id)]
    if not include_traces:
        for block in (b for s in found for b in s["blocks"]):
            block["frames"] = []
    return found


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Segments, what happened to them while history was recorded, and settings."""
    traces = [list(history.entries.get(index, ())) for index in range(find().device_count())]
    return {"segments": memory_snapshot(), "device_traces": traces, "allocator_settings": settings.current.shown(),
            "external_annotations": []}


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """A snapshot as a pickle of plain values, which PyTorch's viewer opens."""
    with open(filename, "wb") as handle:
        pickle.dump(_snapshot(), handle)


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """What each segment holds, as a flame graph; of now, or of a snapshot."""
    Path(filename).write_text(_memory_viz.segments(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """What is held in all, as a flame graph; of now, or of a snapshot."""
    Path(filename).write_text(_memory_viz.memory(_snapshot() if snapshot is None else snapshot))


def _record_memory_history(enabled: str | bool | None = "all", *args: Any, **kwargs: Any) -> None:
    """Remember every block and segment that is taken and given back. `enabled` None (or False) stops; True is for older
    programs, with `trace_alloc_max_entries` and `trace_alloc_record_context`. Stacks are Python's."""
    if isinstance(enabled, bool):
        _record_as_before(enabled, *args, **kwargs)
    else:
        _record(enabled, *args, **kwargs)


def _record_as_before(
    enabled: bool, record_context: bool = True, trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False, device: Any = None, record_context_cpp: bool = False,
    clear_history: bool = False, **others: Any,
) -> None:
    context = "alloc" if trace_alloc_record_context or record_context else None
    _record("all" if enabled else None, context, "all" if record_context_cpp else "python", trace_alloc_max_entries,
            device, clear_history, **others)


def _record(
    enabled: str | None = "all", context: str | None = "all", stacks: str = "all", max_entries: int = 2**31 - 1,
    device: Any = None, clear_history: bool = False, compile_context: bool = False,
    global_record_annotations: bool = False, skip_actions: Sequence[str] | None = None,
) -> None:
    if compile_context or global_record_annotations:
        raise NotImplementedError("_record_memory_history: compile_context, global_record_annotations are False here")
    if context not in (None, "state", "alloc", "all"):
        raise ValueError(f"_record_memory_history: context is None, 'state', 'alloc' or 'all', got {context!r}")
    if stacks not in ("python", "all"):
        raise ValueError(f"_record_memory_history: expected stacks to be 'python' or 'all', got {stacks!r}")
    if enabled not in (None, "state", "all"):
        raise ValueError(f"_record_memory_history: expected enabled to be None, 'state' or 'all', got {enabled!r}")
    if clear_history:
        history.entries.clear()
    history.skipped = frozenset(skip_actions or ())
    if enabled is None:
        history.stop()
    else:
        history.start(enabled, context, max_entries)


_COLORS = {"active_allocated": "#d97706", "active_pending_free": "#facc15", "inactive": "#e5e7eb"}


def memory_page(device: Any = None) -> str:
    """An HTML page: every segment a bar, its blocks by what they are; hovering shows sizes and where they were made."""
    parts = []
    for s in memory_snapshot():
        if device is not None and s["device"] != _C.device(device).index:
            continue
        bars = []
        for b in s["blocks"]:
            where = " at " + ", ".join(f"{f['filename']}:{f['line']}" for f in b["frames"][:3]) if b["frames"] else ""
            title = html.escape(f"{b['size']:,} bytes, {b['state'].replace('_', ' ')}{where}", quote=True)
            share = 100 * b["size"] / s["total_size"]
            bars.append(f'<i style="width:{share:.4f}%;background:{_COLORS[b["state"]]}" title="{title}"></i>')
        head = (f"cuda:{s['device']} stream {s['stream']}, {s['segment_type']}, {s['total_size'] / 2**20:,.1f} MiB,"
                f" {s['allocated_size'] / 2**20:,.1f} MiB used")
        parts.append(f"<p>{head}</p><div>{''.join(bars)}</div>")
    style = ("body{font:14px sans-serif;margin:2em}p{margin:.8em 0 .2em}div{display:flex;height:22px;border:1px solid"
             " #999}i{display:block;height:100%;box-shadow:inset -1px 0 #fff8}")
    body = "".join(parts) or "<p>Nothing is held.</p>"
    return f"<!doctype html><meta charset=utf-8><title>Device memory</title><style>{style}</style>{body}"
