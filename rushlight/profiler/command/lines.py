"""The program's own lines, and how long each took.

Enters: events that know where in the source they began (`sources` of a recording). Leaves: a `Line` per line of the
program's own files, with the time spent under it: a call belongs to the innermost line of the program's that led to it,
whoever's functions lie between, and the interpreter's time between two calls to the line of the second. The standard
library, installed packages and this package are not the program's own.
"""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import CodeType

import numpy as np

from ...base.sources import PACKAGE
from .events import Events
from .findings import COMPUTE, DATA, MEMORY, OVERHEAD
from .verdicts import Verdicts

NAMED = 3                    # ops that a line is said to be mostly


@dataclass
class Line:
    """A line; times are nanoseconds. `ops` is how often each op ran under it, and how long."""

    file: str
    number: int
    time: float = 0.0
    kernel: float = 0.0
    compute: float = 0.0
    data: float = 0.0
    making: float = 0.0
    ops: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The source, without what it is indented by and what columns are made of."""
        return re.sub(r"\s{2,}", "  ", linecache.getline(self.file, self.number).strip())

    @property
    def place(self) -> str:
        """Where it is, in short."""
        return f"{os.path.basename(self.file)}:{self.number}"

    @property
    def calls(self) -> int:
        """Calls of ops."""
        return sum([count for count, _ in self.ops.values()])

    @property
    def names(self) -> tuple[str, ...]:
        """The ops that took longest."""
        return tuple(sorted(self.ops, key=lambda name: -self.ops[name][1])[:NAMED])

    @property
    def bound(self) -> str:
        """What the line's time is spent on."""
        if self.data * 2 > self.time:
            return DATA
        if self.kernel * 2 < self.time:
            return OVERHEAD
        return COMPUTE if self.compute * 2 > self.kernel else MEMORY


@cache
def is_own(file: str) -> bool:
    """Whether a file is the program's own."""
    if file.startswith(("<", os.path.join(PACKAGE, ""))):
        return False
    paths = sysconfig.get_paths()
    foreign = [os.path.join(os.path.realpath(paths[key]), "") for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    real = os.path.realpath(file)
    return not real.startswith(tuple(foreign)) and "site-packages" not in real


def line_at(code: CodeType, instruction: int) -> int:
    """The line of an instruction."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


def own_lines(sources: Mapping[tuple[CodeType, int], int]) -> tuple[np.ndarray, list[Line]]:
    """The lines of the program's own, and for each number of a source which of them it is; -1: none."""
    number_of = np.full(len(sources) + 1, -1, np.int64)
    found: dict[tuple[str, int], int] = {}
    for (code, instruction), number in sources.items():
        if is_own(code.co_filename):
            key = (code.co_filename, line_at(code, instruction))
            number_of[number] = found.setdefault(key, len(found))
    return number_of, [Line(*key) for key in found]


def gaps(events: Events) -> np.ndarray:
    """The time between an event and what ended before it within the same one."""
    order = np.lexsort((events.begin, events.parent, events.thread))
    parent, thread = events.parent[order], events.thread[order]
    first = np.ones(len(order), bool)
    first[1:] = (parent[1:] != parent[:-1]) | (thread[1:] != thread[:-1])
    before = np.empty(len(order), np.int64)
    before[1:] = events.end[order][:-1]
    around = np.where(parent >= 0, events.begin[np.maximum(parent, 0)], events.begin[order])
    before = np.where(first, around, before)
    result = np.empty(len(order), np.int64)
    result[order] = np.maximum(events.begin[order] - before, 0)
    return result


def lines_of(events: Events, verdicts: Verdicts, sources: Mapping[tuple[CodeType, int], int]) -> list[Line]:
    """The program's lines, the slowest first."""
    if not len(events):
        return []
    number_of, lines = own_lines(sources)
    own = number_of[np.minimum(np.maximum(events.site, 0), len(number_of) - 1)]
    near = events.nearest(own >= 0)
    line = np.where(near >= 0, own[np.maximum(near, 0)], -1)
    gap = np.where((own >= 0) & (events.parent >= 0) & events.is_main, gaps(events), 0)
    at_parent = events.total(gap, np.where(gap > 0, events.parent, -1))
    time = np.maximum(events.own - at_parent, 0) + gap
    counted = (line >= 0) & events.is_main
    sums = {
        "time": time, "kernel": verdicts.kernel, "compute": np.where(verdicts.is_compute, verdicts.kernel, 0),
        "data": np.where(events.is_data, time, 0), "making": np.where(events.is_making, events.own, 0),
    }
    for key, values in sums.items():
        for k, total in enumerate(np.bincount(line[counted], weights=values[counted], minlength=len(lines))):
            setattr(lines[k], key, float(total))
    add_ops(events, verdicts, line, lines)
    return sorted(lines, key=lambda one: -one.time)


def add_ops(events: Events, verdicts: Verdicts, line: np.ndarray, lines: list[Line]) -> None:
    """Tells every line which ops ran under it."""
    rows = np.flatnonzero(verdicts.is_row & (line >= 0) & ~events.is_making)
    if not len(rows):
        return
    took = events.total(verdicts.own, verdicts.owner)[rows]
    pairs, where = np.unique(line[rows] << 32 | events.name[rows], return_inverse=True)
    count, time = np.bincount(where), np.bincount(where, weights=took)
    for pair, n, spent in zip(pairs.tolist(), count.tolist(), time.tolist(), strict=True):
        lines[pair >> 32].ops[events.names[pair & 0xFFFFFFFF]] = (n, spent)

