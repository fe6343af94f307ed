"""Collapsed stacks: the time that was spent in each distinct stack of frames, ops and kernels.

Enters: events. Leaves: (frames from the outermost on, nanoseconds), the longest first. What started the program (this
command, `runpy`) is left out. Stacks are told apart a level at a time, so that a million events take no loop each.
"""

from __future__ import annotations

import numpy as np

from .events import Events

STARTERS = (
    "runpy.py(", "<frozen runpy>(", "<built-in function exec>", "rushlight/__main__.py(", "rushlight/compat/",
    "rushlight/profiler/command/",
)
DEEPEST = 400


class Paths:
    """Distinct stacks, each a name behind another stack."""

    def __init__(self, count: int) -> None:
        self.names: list[int] = []
        self.above: list[int] = []
        self.of = np.full(count, -1, np.int64)       # of each event

    def add(self, rows: np.ndarray, above: np.ndarray, names: np.ndarray) -> None:
        """Events of one level, with the stacks around them."""
        pairs, where = np.unique((above + 1) << 32 | names, return_inverse=True)
        self.of[rows] = where + len(self.names)
        self.above += ((pairs >> 32) - 1).tolist()
        self.names += (pairs & 0xFFFFFFFF).tolist()

    def frames(self, path: int, texts: list[str]) -> tuple[str, ...]:
        """The names of a stack, from the outermost on."""
        found = []
        while path >= 0:
            found.append(texts[self.names[path]])
            path = self.above[path]
        return tuple(reversed(found))


def collapsed_stacks(events: Events) -> list[tuple[tuple[str, ...], int]]:
    """The stacks of a run."""
    starters = np.asarray([name.startswith(STARTERS) for name in events.names] or [False])
    paths, rows = Paths(len(events)), np.flatnonzero(events.parent < 0)
    order = np.argsort(events.parent, kind="stable")
    first = np.searchsorted(events.parent[order], np.arange(len(events)))
    last = np.searchsorted(events.parent[order], np.arange(len(events)), side="right")
    for _ in range(DEEPEST):
        if not len(rows):
            break
        above = np.where(events.parent[rows] >= 0, paths.of[np.maximum(events.parent[rows], 0)], -1)
        kept = ~((above < 0) & starters[events.name[rows]])
        paths.add(rows[kept], above[kept], events.name[rows][kept])
        rows = order[spans(first[rows], last[rows])]
    has = paths.of >= 0
    time = np.bincount(paths.of[has], weights=events.own[has], minlength=len(paths.names)) if has.any() else np.zeros(0)
    found = [(paths.frames(k, events.names), round(time[k])) for k in np.flatnonzero(time >= 1)]
    return sorted(found, key=lambda one: -one[1])


def spans(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """All numbers from each first up to its last."""
    lengths = last - first
    starts = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return starts + np.arange(int(lengths.sum()))
