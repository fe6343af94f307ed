"""The cycle model: five units that work at the same time, and what one waits for.

The scalar unit issues one instruction a cycle, in order. The others (load DMA, store DMA, vector unit, array) take
theirs in order from a queue, and begin one when the unit is free and its registers are: those it reads have been
written, the one it writes has been read and written by all before. Results are there `LATENCY` cycles after a unit has
worked on an instruction; the unit itself is free before. What the scalar unit reads of a vector it waits for. Loads do
not wait for stores that are under way, unless a `fence` stands between.

    unit       busy for
    vector     ceil(lanes / 128); types of 64 bits and divisions twice that, special functions four times
    load,store neighbours along either axis: 64 bytes a cycle, each row begins a new one; elements apart: one a cycle;
               what is repeated (a stride of 0) is moved once; gathers and scatters: an element a cycle
    array      16 + tiles of 16 x 16 weights * max(16, rows): weights are changed behind the last row of the ones before
"""

from __future__ import annotations

LANES, EDGE, BEAT = 128, 16, 64      # lanes of the vector unit, edge of the array, bytes a DMA moves in a cycle
UNITS = ("scalar", "vector", "load", "store", "array")
LATENCY = {"vector": 4, "load": 80, "store": 80, "array": 31}
SLOW = frozenset(("vdiv", "vquot", "vrem", "vsqrt"))
TAKEN = 2                            # cycles more of a branch that is taken


def vector_cycles(lanes: int, size: int, name: str, special: bool) -> int:
    """Cycles that the vector unit works on an instruction."""
    rate = 4 if special else 2 if size >= 8 or name in SLOW else 1
    return rate * -(-lanes // LANES)


def dma_cycles(rows: int, columns: int, row_stride: int, stride: int, size: int) -> int:
    """Cycles of a strided transfer of `rows` times `columns` elements."""
    if stride != size and row_stride == size:      # neighbours lie along the other axis: they are turned on the way
        rows, columns, row_stride, stride = columns, rows, stride, row_stride
    if stride != size:
        return (rows if row_stride else 1) * (columns if stride else 1)
    if row_stride == columns * size:
        rows, columns = 1, rows * columns
    return (rows if row_stride else 1) * -(-columns * size // BEAT)


def array_cycles(m: int, n: int, k: int) -> int:
    """Cycles of a product of m x k and k x n on the array."""
    return EDGE + -(-k // EDGE) * -(-n // EDGE) * max(EDGE, m)


class Clock:
    """When each unit and each register is free, while a program runs."""

    def __init__(self, registers: int) -> None:
        self.issued = 0
        self.free = dict.fromkeys(UNITS, 0)
        self.busy = dict.fromkeys(UNITS, 0)
        self.written = [0] * (registers + 1)      # one more for "no register"
        self.read = [0] * (registers + 1)
        self.last = 0                             # when everything begun so far is over
        self.stored = 0                           # when the last store is

    def scalar(self, more: int = 0) -> None:
        """One cycle of the scalar unit, and `more`."""
        self.issued += 1 + more
        self.busy["scalar"] += 1 + more

    def wait(self, register: int) -> None:
        """The scalar unit waits for a vector register."""
        self.issued = max(self.issued, self.written[register])

    def fence(self) -> None:
        """Loads from here on begin after all stores."""
        self.free["load"] = max(self.free["load"], self.stored)

    def begin(self, unit: str, cycles: int, reads: tuple[int, ...], target: int) -> None:
        """An instruction for a unit that reads and writes these registers (-1: none)."""
        self.issued += 1
        self.busy["scalar"] += 1
        written, read = self.written, self.read
        start = max(self.issued, self.free[unit], written[target], read[target])
        for r in reads:
            if written[r] > start:
                start = written[r]
        self.free[unit] = done = start + cycles
        self.busy[unit] += cycles
        for r in reads:
            if done > read[r]:
                read[r] = done
        end = done + LATENCY[unit]
        if target >= 0:
            written[target] = end
        if unit == "store":
            self.stored = max(self.stored, end)
        if end > self.last:
            self.last = end

    def total(self) -> int:
        """Cycles from the first instruction to the end of the last one."""
        return max(self.last, self.issued)
