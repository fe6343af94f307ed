"""A recording as columns, and what follows from how its events lie within each other.

Enters: a recording as `_extras.profile_stop` gives it (csrc/profile.h says the columns). Leaves: arrays with one entry
per event; a million events take no Python object each. Memory's instants are kept apart: they are no part of the tree.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np


class Kind(IntEnum):
    """What an event is; the numbers are those of csrc/profile.h."""

    OP, INNER, EVALUATE, NODE, USER, KERNEL, COMPILE, MEMORY, PYTHON, PYTHON_CALL, MODULE, REGION, COLLECTIVE, STEP = (
        range(14)
    )


LOADER = "enumerate(DataLoader)"
OPS = (Kind.OP, Kind.INNER)
ROWS = (Kind.OP, Kind.NODE, Kind.REGION, Kind.COLLECTIVE)      # what the table of ops has rows for


class Events:
    """The events of a run. `parent` is -1 where there is none; times are nanoseconds."""

    def __init__(self, recording: dict[str, Any]) -> None:
        columns = {key: np.frombuffer(held, np.int64) for key, held in recording["columns"].items()}
        self.names: list[str] = recording["names"]
        self.calls: list[Any] = recording["calls"]
        self.threads: list[tuple] = recording["threads"]
        is_memory = columns["kind"] == Kind.MEMORY
        self.memory = {key: columns[key][is_memory] for key in ("begin", "value", "total", "device", "unit")}
        kept = np.flatnonzero(~is_memory)
        place = np.full(len(is_memory) + 1, -1, np.int64)      # the last entry answers for a parent of -1
        place[kept] = np.arange(len(kept))
        self.begin, self.end = columns["begin"][kept], columns["end"][kept]
        self.kind, self.name, self.thread = columns["kind"][kept], columns["name"][kept], columns["thread"][kept]
        self.inputs = columns["inputs"][kept]
        self.site = columns["source"][kept]
        self.parent = place[columns["parent"][kept]]
        self.time = np.maximum(self.end - self.begin, 0)

    def __len__(self) -> int:
        return len(self.begin)

    def is_kind(self, *kinds: int) -> np.ndarray:
        """Which events are of one of these kinds."""
        return np.isin(self.kind, kinds)

    def named(self, *starts: str) -> np.ndarray:
        """Which events have a name that starts so."""
        wanted = np.asarray([name.startswith(starts) for name in self.names] or [False])
        return wanted[self.name] & (len(self.names) > 0) if len(self) else np.zeros(0, bool)

    def nearest(self, is_marked: np.ndarray) -> np.ndarray:
        """For each event the innermost marked one at or around it; -1 where there is none."""
        up = np.where(is_marked, np.arange(len(self)), self.parent)
        while True:
            further = np.where(up >= 0, up[np.maximum(up, 0)], -1)
            if np.array_equal(further, up):
                return up
            up = further

    def above(self, is_marked: np.ndarray) -> np.ndarray:
        """For each event the innermost marked one that is strictly around it; -1 where there is none."""
        near = self.nearest(is_marked)
        return np.where(self.parent >= 0, near[np.maximum(self.parent, 0)], -1) if len(self) else near

    def within(self, is_marked: np.ndarray) -> np.ndarray:
        """Which events are marked or lie in one that is."""
        return self.nearest(is_marked) >= 0

    def total(self, values: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """The values of all events that belong to each, added up."""
        has = owner >= 0
        return np.bincount(owner[has], weights=values[has], minlength=len(self))

    @cached_property
    def own(self) -> np.ndarray:
        """Time of each event that no event within it has."""
        return np.maximum(self.time - self.total(self.time, self.parent), 0)

    @cached_property
    def is_main(self) -> np.ndarray:
        """Which events are the main thread's, which began first."""
        return self.thread == 0

    @cached_property
    def is_data(self) -> np.ndarray:
        """Which events belong to fetching the next batch."""
        return self.within(self.named(LOADER))

    @cached_property
    def is_making(self) -> np.ndarray:
        """Which events belong to the making of kernels and plans."""
        return self.within(self.kind == Kind.COMPILE)
