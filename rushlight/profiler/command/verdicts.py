"""What bounds each op, and the shares of the wall clock.

Enters: events, the cost of calls, the machine's peaks. Leaves: `OpRow`s, the slowest first, and shares that sum to 1.

    inside kernels    the KERNEL events within a call; of a call that has none, what it took beyond the smallest call's
                      time (`launch_ns`, measured with the peaks), and nothing where it is short and a tenth of its
                      time would do
    a call's class    compute, where its flops at the peak take longer than its bytes at theirs; else memory. Where one
                      is unknown: memory, if moving its bytes explains a third of the kernel's time; else compute
    an op's bound     overhead, where less than half of its time is inside kernels, or its calls are short and a tenth
                      of their time would do; else the class of most of its kernels' time
    shares            of the main thread's time, without that for making kernels and plans, which happens once: compute
                      and memory are the time inside kernels by the calls' classes, data is what `next` of a DataLoader
                      took, overhead is all the rest. Kernels of other threads count while the main thread runs none.
"""

from __future__ import annotations

import bisect
from functools import cached_property
from typing import Any

import numpy as np

from .calls import NOTHING, Costs, is_body
from .counting import Work
from .events import LOADER, OPS, ROWS, Events, Kind
from .findings import COMPUTE, DATA, MEMORY, OVERHEAD, OpRow
from .peaks import Peaks

SHORT_NS = 20_000            # a call that may be all overhead
LITTLE = 0.1                 # of its time, at the peaks: nothing is computed or moved worth telling
EXPLAINED = 1 / 3


class Verdicts:
    """Everything that is said of ops, worked out once."""

    def __init__(self, events: Events, peaks: Peaks, costs: Costs | None = None) -> None:
        self.events, self.peaks = events, peaks
        self.costs = costs or Costs()
        e = events
        is_row = e.is_kind(*ROWS)
        # An op of ours, or a kernel, that nothing of the program's is around is a row of its own.
        around = e.nearest(is_row)
        is_alone = e.is_kind(Kind.INNER, Kind.KERNEL) & (around < 0)
        is_row |= is_alone & (e.above(is_alone) < 0)
        self.owner = e.nearest(is_row)
        self.is_row = is_row
        self.flops, self.bytes = self.leaf_work()
        self.own = np.where(e.is_making, 0, e.own)
        self.kernel = self.kernel_time()
        self.is_compute = self.classes()

    # --- work ---------------------------------------------------------------------------------------------------------

    def leaf_work(self) -> tuple[np.ndarray, np.ndarray]:
        """Flops and bytes of every call that calls no other op; 0 elsewhere, NaN where nobody knows."""
        e = self.events
        is_op = e.is_kind(*OPS) & ~e.is_making
        parts = e.total(np.ones(len(e)), np.where(is_op, e.above(e.is_kind(*OPS, Kind.NODE)), -1))
        is_leaf = (parts == 0) & (is_op | e.is_kind(Kind.NODE, Kind.REGION, Kind.COLLECTIVE))
        known = [self.known_work(call) for call in e.calls]
        table = np.asarray([[np.nan if n is None else n for n in work] for work in known] or [[np.nan] * 2], float)
        found = np.where((e.inputs >= 0)[:, None], table[np.maximum(e.inputs, 0)], np.nan)
        found[e.named("torch::autograd::AccumulateGrad")] = 0.0
        found[~is_leaf | e.is_making] = 0.0
        lonely = self.is_row & (e.kind == Kind.KERNEL)
        found[lonely] = np.nan
        return found[:, 0], found[:, 1]

    def known_work(self, call: Any) -> Work:
        """The cost of a kind of call; a body that called nothing cost nothing."""
        work = self.costs.work(call)
        if work is not None:
            return work
        return NOTHING if not isinstance(call[0], str) and is_body(call[0]) else Work(None, None)

    # --- time ---------------------------------------------------------------------------------------------------------

    def kernel_time(self) -> np.ndarray:
        """Nanoseconds inside kernels of each call, leaf or not: at the kernel's event, or at the call itself."""
        e = self.events
        is_kernel = (e.kind == Kind.KERNEL) & ~e.is_making
        within = np.where(is_kernel, e.time, 0).astype(float)
        around = e.above(e.is_kind(*OPS, Kind.NODE, Kind.REGION))
        has_kernels = e.total(np.ones(len(e)), np.where(is_kernel, around, -1))
        is_library = e.is_kind(*OPS, Kind.REGION) & (has_kernels == 0) & ~e.is_making & self.works
        beyond = np.maximum(self.own - self.peaks.launch_ns, 0)
        least = np.fmax(self.flops / self.peaks.flops_per_s, self.bytes / self.peaks.bytes_per_s) * 1e9
        beyond[(self.own < SHORT_NS) & (least < LITTLE * self.own)] = 0
        return np.where(is_library, beyond, within)

    @property
    def works(self) -> np.ndarray:
        """Which events may have kernels at all: those with something to compute or move, or nobody knows."""
        return ~((self.flops == 0) & (self.bytes == 0))

    def classes(self) -> np.ndarray:
        """Whether each event's kernel time counts as computing; of a kernel, the call around it decides."""
        e = self.events
        near = e.nearest(e.is_kind(*OPS, Kind.NODE, Kind.REGION))
        place = np.maximum(near, 0)
        if not len(e):
            return np.zeros(0, bool)
        time = np.maximum(e.total(self.kernel, near)[place], 1.0)
        flops, moved = self.flops[place] / self.peaks.flops_per_s, self.bytes[place] / self.peaks.bytes_per_s
        by_bytes = np.nan_to_num(moved) * 1e9 < EXPLAINED * time
        is_known = ~np.isnan(flops) & ~np.isnan(moved)
        return np.where(is_known, np.nan_to_num(flops) > np.nan_to_num(moved), by_bytes) & (near >= 0)

    @cached_property
    def makings(self) -> np.ndarray:
        """Which events are the making of a kernel or plan that is no part of another's."""
        is_making = self.events.kind == Kind.COMPILE
        return is_making & (self.events.above(is_making) < 0)

    @cached_property
    def making_ns(self) -> float:
        """How long the main thread made kernels and plans."""
        return float(self.events.time[self.makings & self.events.is_main].sum())

    # --- answers ------------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[OpRow, ...]:
        """One row per name, the slowest first."""
        e, rows = self.events, np.flatnonzero(self.is_row & ~self.events.is_making)
        totals = {
            "us": e.total(self.own, self.owner), "kernel": e.total(self.kernel, self.owner),
            "compute": e.total(np.where(self.is_compute, self.kernel, 0), self.owner),
            "flops": e.total(self.flops, self.owner), "bytes": e.total(self.bytes, self.owner),
        }
        count = np.bincount(e.name[rows], minlength=len(e.names)) if len(rows) else []
        by_name = {
            key: np.bincount(e.name[rows], weights=values[rows], minlength=len(e.names)) if len(rows) else []
            for key, values in totals.items()
        }
        found = [
            self.row(e.names[k], int(count[k]), {key: float(values[k]) for key, values in by_name.items()})
            for k in np.flatnonzero(count)
        ]
        return tuple(sorted(found, key=lambda row: -row.us))

    def row(self, name: str, count: int, sums: dict[str, float]) -> OpRow:
        """The row of a name."""
        flops, moved = (None if np.isnan(sums[key]) else round(sums[key]) for key in ("flops", "bytes"))
        us, kernel = sums["us"] / 1e3, min(sums["kernel"], sums["us"]) / 1e3
        least = max(self.peaks.seconds(flops, moved)) * 1e6
        is_short = sums["us"] < SHORT_NS * count and least < LITTLE * us and flops is not None and moved is not None
        bound = OVERHEAD if kernel < us / 2 or is_short else COMPUTE if sums["compute"] * 2 > sums["kernel"] else MEMORY
        return OpRow(name, count, us, flops, moved, bound, kernel)

    def share(self, wall_ns: float) -> dict[str, float]:
        """The parts of the wall clock."""
        e = self.events
        is_mine = e.is_main & ~e.is_data
        making_data = float(e.time[self.makings & e.is_main & e.is_data].sum())
        spent = {
            COMPUTE: float(self.kernel[is_mine & self.is_compute].sum()),
            MEMORY: float(self.kernel[is_mine & ~self.is_compute].sum()),
            DATA: float(e.time[e.named(LOADER) & e.is_main].sum()) - making_data,
        }
        for bound, more in self.elsewhere().items():
            spent[bound] += more
        whole = max(wall_ns - self.making_ns, sum(spent.values()), 1.0)
        parts = {bound: ns / whole for bound, ns in spent.items()}
        return {**parts, OVERHEAD: max(1.0 - sum(parts.values()), 0.0)}

    def elsewhere(self) -> dict[str, float]:
        """Kernel time of other threads while the main thread was outside of ops and not waiting for data."""
        e = self.events
        outer = e.is_kind(*OPS, Kind.NODE, Kind.REGION)
        outer &= e.above(outer) < 0
        busy = e.is_main & (outer | e.named(LOADER))
        others = np.flatnonzero(outer & ~e.is_main)
        if not len(others):
            return {}
        inner = e.nearest(outer)
        kernel, compute = e.total(self.kernel, inner), e.total(np.where(self.is_compute, self.kernel, 0), inner)
        spans = sorted(zip(e.begin[busy].tolist(), e.end[busy].tolist(), strict=True))
        spent = {COMPUTE: 0.0, MEMORY: 0.0}
        done = 0
        for k in others[np.argsort(e.begin[others])].tolist():
            begin, end = max(int(e.begin[k]), done), int(e.end[k])
            done = max(done, end)
            free = max(end - begin, 0) - covered(spans, begin, end)
            part = max(free, 0) / max(int(e.time[k]), 1)
            spent[COMPUTE] += part * float(compute[k])
            spent[MEMORY] += part * float(kernel[k] - compute[k])
        return spent


def covered(spans: list[tuple[int, int]], begin: int, end: int) -> int:
    """How much of a stretch sorted spans cover that do not overlap each other."""
    total, at = 0, max(bisect.bisect_right(spans, (begin, end)) - 1, 0)
    while at < len(spans) and spans[at][0] < end:
        total += max(0, min(spans[at][1], end) - max(spans[at][0], begin))
        at += 1
    return total
