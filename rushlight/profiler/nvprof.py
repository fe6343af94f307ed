"""Traces that NVIDIA's old profiler left in an SQLite file: the ranges of `emit_nvtx`, with their kernels.

Enters: the path of the file. Leaves: events, in the order in which they began. Refuses: what is no such file
(sqlite3's errors), ranges that are there twice (RuntimeError), kernels that were not launched (AssertionError).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from .event_source import EventList
from .events import FunctionEvent, StringTable

LAUNCH = 211                     # what the file calls cudaLaunchKernel, since CUDA 9.2

_RANGES = """
    SELECT opened.id AS range_id, opened.name AS name, opened.timestamp AS begun, closed.timestamp AS ended
    FROM CUPTI_ACTIVITY_KIND_MARKER AS opened
    JOIN CUPTI_ACTIVITY_KIND_MARKER AS closed ON opened.id = closed.id
    WHERE opened.name != 0 AND closed.name = 0
"""
_KERNELS = """
    SELECT opened.id AS range_id, call._id_ AS call_id, call.cbid AS kind, kernel.name AS name,
           kernel.start AS begun, kernel.end AS ended
    FROM CUPTI_ACTIVITY_KIND_MARKER AS opened
    JOIN CUPTI_ACTIVITY_KIND_MARKER AS closed ON opened.id = closed.id
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call ON opened.timestamp < call.start AND call.end < closed.timestamp
    JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = call.correlationId
"""


class EnforceUnique:
    """Sees keys, and refuses (RuntimeError) one that it has seen."""

    def __init__(self) -> None:
        self.seen: set[tuple] = set()

    def see(self, *key: Any) -> None:
        """See a key."""
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


def parse_nvprof_trace(path: str) -> list[FunctionEvent]:
    """The ranges of the file as events; times are those of the file."""
    shown = StringTable()
    with closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        names = {row["id"]: shown[row["value"]] for row in file.execute("SELECT _id_ AS id, value FROM StringTable")}
        events: dict[int, FunctionEvent] = {}
        once = EnforceUnique()
        for row in file.execute(_RANGES):
            once.see(row["range_id"])
            events[row["range_id"]] = FunctionEvent(
                id=row["range_id"], node_id=0, name=names[row["name"]], start_us=row["begun"], end_us=row["ended"],
                thread=0,
            )
        once = EnforceUnique()
        for row in file.execute(_KERNELS):
            once.see(row["range_id"], row["call_id"])
            if row["kind"] != LAUNCH:
                raise AssertionError(f"Expected cbid to be {LAUNCH}, but got {row['kind']}")
            events[row["range_id"]].append_kernel(row["name"], 0, row["ended"] - row["begun"])
    return sorted(events.values(), key=lambda event: event.time_range.start)


def load_nvprof(path: str) -> EventList:
    """The ranges of the file, as a list that shows itself."""
    return EventList(parse_nvprof_trace(path))
