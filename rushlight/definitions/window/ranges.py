"""Windows as folded ranges: which taps of a window lie inside the input, by arithmetic on positions.

Enters: an axis of a pool and where its numbers are among a body's sources. Leaves: what a Lowered says of such a range:
its size, the numbers it needs, the place of a tap, the taps that lie inside, and where all of them do. Refuses:
flipped axes and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.loops.expr import Value, const, ge, idiv, le, max_, min_
from rushlight.loops.lowered import ONE, ZERO, At, Number, Table, Window

from .axes import ADAPTIVE, Axis, integers, table_of

WRITTEN = 8    # taps of a window that may be written out one by one


class WindowRange:
    """One axis: output range `out` of the Lowered, folded range `tap`, numbers from `first` on among the reads."""

    def __init__(self, axis: Axis, d: int, out: int, tap: int, first: int, last: bool) -> None:
        self.axis, self.d, self.out, self.tap, self.first = axis, d, out, tap, first
        self.adaptive = axis.rule == ADAPTIVE
        # Along the last dim distances are part of the code, so that neighbours in memory are read as vectors.
        self.fixed = last and not self.adaptive and axis.b <= 8 and axis.d <= 8
        self.written = last and not self.adaptive and axis.a <= WRITTEN

    @property
    def taps(self) -> int:
        """The size of the folded range: the most elements a window has."""
        axis = self.axis
        return -(-axis.size // axis.out) + 1 if self.adaptive else int(axis.a) if self.written else axis.a

    @property
    def key(self) -> tuple:
        """What the body depends on."""
        axis = self.axis
        return (
            self.adaptive,
            (int(axis.b), int(axis.d)) if self.fixed else None,
            int(axis.a) if self.written else None,
        )

    def numbers(self) -> list[Number | Table]:
        """What the body needs besides: the sizes of both sides, then kernel, stride, padding and dilation;
        or where windows start and end.

        Six reads, whatever they are: divisions take longer than looking up what is shorter than a row.
        """
        axis = self.axis
        if self.adaptive:
            found = table_of(axis)
            ends = [s + n for s, n in zip(found.starts, found.counts, strict=True)]
            tables = [
                Table(f"{label}{self.d}", "i64", (axis.out,), (1,), values=integers(v))
                for label, v in (("starts", found.starts), ("ends", ends))
            ]
            return [*tables, *[Number(f"unused{self.d}.{k}", "i64", 0) for k in range(4)]]
        given = (axis.size, axis.out, axis.a, axis.b, axis.c, axis.d)
        return [
            Number(f"{label}{self.d}", "i64", n)
            for label, n in zip(("size", "out", "kernel", "stride", "padding", "dilation"), given, strict=True)
        ]

    def values(self, sources: Sequence[Any]) -> list[Value]:
        """Those numbers in a body."""
        size, out, kernel, stride, padding, dilation = (s.value for s in sources[self.first : self.first + 6])
        if self.fixed:
            stride, dilation = const(int(self.axis.b), "i64"), const(int(self.axis.d), "i64")
        return [size, out, const(int(self.axis.a), "i64") if self.written else kernel, stride, padding, dilation]

    def start(self, at: At, sources: Sequence[Any]) -> Value:
        """Where the window's first tap would be."""
        if self.adaptive:
            return sources[self.first][at[self.out]]
        _, _, _, stride, padding, _ = self.values(sources)
        return at[self.out] * stride - padding

    def step(self, sources: Sequence[Any]) -> Value:
        """The distance of its taps."""
        return ONE if self.adaptive else self.values(sources)[5]

    def place(self, at: At, sources: Sequence[Any]) -> Value:
        """Where a tap is."""
        return self.start(at, sources) + at[self.tap] * self.step(sources)

    def bounds(self, at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        """The taps inside the input."""
        start = self.start(at, sources)
        if self.adaptive:
            return ZERO, sources[self.first + 1][at[self.out]] - start
        size, _, kernel, _, _, dilation = self.values(sources)
        if self.tap in at.whole:
            return ZERO, kernel
        first = idiv(max_(dilation - ONE - start, ZERO), dilation)
        return first, max_(min_(kernel, idiv(max_(size - ONE - start + dilation, ZERO), dilation)), first)

    def whole(self, at: At, sources: Sequence[Any]) -> Value:
        """Whether all taps are."""
        size, _, kernel, _, _, dilation = self.values(sources)
        start = self.start(at, sources)
        return ge(start, ZERO) & le(start + (kernel - ONE) * dilation, size - ONE)

    def window(self) -> tuple[int, Window]:
        """The folded range and its part."""
        return self.tap, Window(self.bounds, None if self.adaptive else self.whole)


def window_ranges(axes: Sequence[Axis], lead: int, first: int) -> list[WindowRange]:
    """The axes of an op whose results have `lead` dims before them; their numbers come from read `first` on."""
    count = len(axes)
    return [
        WindowRange(axis, d, lead + d, lead + count + d, first + 6 * d, d == count - 1) for d, axis in enumerate(axes)
    ]
