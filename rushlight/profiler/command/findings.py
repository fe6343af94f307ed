"""What a run tells: the records that the analysis leaves and that the table, the summary and the report are written of.

Enters: nothing; these are shapes of data. Times are microseconds, work is counted as in counting.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .peaks import Peaks

COMPUTE, MEMORY, OVERHEAD, DATA = "compute", "memory", "overhead", "data"
SHARES = (COMPUTE, MEMORY, OVERHEAD, DATA)


@dataclass(frozen=True)
class OpRow:
    """All calls of one op, nodes of backward included. `us` is its own time: what ops it calls took is theirs, and the
    making of kernels is nobody's."""

    name: str
    count: int
    us: float
    flops: int | None
    bytes: int | None
    bound: str
    kernel_us: float = 0.0           # of `us`, within kernels and libraries

    def summary(self) -> dict[str, Any]:
        """As summary.json holds it."""
        return {
            "name": self.name, "count": self.count, "us": round(self.us, 3), "flops": self.flops, "bytes": self.bytes,
            "bound": self.bound,
        }


@dataclass(frozen=True)
class LineRow:
    """A line of the program: how long it took, with all it calls, how often ops ran from it, and which took longest."""

    file: str
    line: int
    text: str
    us: float
    count: int
    names: tuple[str, ...]
    bound: str
    advice: str = ""


@dataclass(frozen=True)
class Advice:
    """Something to do, what speaks for it, and how long the run spent on it."""

    key: str
    title: str
    detail: str
    us: float
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of tensors over time: (microseconds since the start, bytes) where that changes."""

    peak_bytes: int
    end_bytes: int
    steps: Sequence[tuple[float, int]] = field(default=(), repr=False)


@dataclass(frozen=True)
class Findings:
    """The whole."""

    program: str
    outcome: str                     # how the program ended
    wall_us: float
    peaks: Peaks
    ops: tuple[OpRow, ...]
    share: dict[str, float]
    memory: MemoryUse
    lines: tuple[LineRow, ...] = ()
    advice: tuple[Advice, ...] = ()
    stacks: Sequence[tuple[tuple[str, ...], int]] = ()      # frames from the outermost on, microseconds
    notes: tuple[str, ...] = ()      # what is missing, and why

    @property
    def verdict(self) -> str:
        """What bounds the program: the largest share."""
        return max(SHARES, key=lambda name: self.share[name])

    def summary(self) -> dict[str, Any]:
        """The contents of summary.json."""
        return {
            "ops": [row.summary() for row in self.ops],
            "share": self.share,
            "peaks": {"flops_per_s": self.peaks.flops_per_s, "bytes_per_s": self.peaks.bytes_per_s},
            "memory": {"peak_bytes": self.memory.peak_bytes, "end_bytes": self.memory.end_bytes},
            "wall_us": self.wall_us,
        }
