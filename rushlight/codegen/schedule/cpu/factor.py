"""Factors of matrix products that are computed while they are packed: other types, scales, masks, sums of tensors.

Enters: the value of an element from what it reads, and the classes of the reads' strides. Leaves: statements that work
out some lines in memory of the kernel's own, in vectors, and pack them from there as `Multiply` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....loops.expr import Value, const, idiv, load, min_, var
from ....loops.nest import For, Pack, Statement, Store
from ....loops.record import Record

ZERO, ONE = const(0, "i64"), const(1, "i64")
STRIDES = ("batch", "line", "step")      # of a read: between matrices, lines of the factor, and values of k


def stride_class(stride: int) -> int:
    """What code depends on of a stride: 0, 1, or any other (2)."""
    return 0 if stride == 0 else 1 if stride == 1 else 2


def along(position: Value, kind: int, name: str) -> Value:
    """How far `position` steps of a stride lead."""
    return ZERO if kind == 0 else position if kind == 1 else position * var(name)


class Factor(Record):
    """One factor: `value(reads)` from elements of types `codes`, whose strides are of the classes `kinds`."""

    side: str
    codes: tuple[str, ...]
    kinds: tuple[tuple[int, int, int], ...]
    value: Callable[[Sequence[Value]], Value]

    @property
    def params(self) -> tuple[str, ...]:
        """The names of all strides, read by read."""
        return tuple([f"{self.side}{r}.{what}" for r in range(len(self.codes)) for what in STRIDES])

    @property
    def by_lines(self) -> bool:
        """Whether neighbours are elements of different lines, not values of k."""
        return all(k[2] != 1 for k in self.kinds) and any(k[1] == 1 for k in self.kinds)

    def element(self, first: int, matrix: Value, line: Value, k: Value) -> Value:
        """The element of a line at `k`; its reads are the operands from number `first` on."""
        reads = []
        for r, (code, kinds) in enumerate(zip(self.codes, self.kinds, strict=True)):
            place = ZERO
            for position, kind, what in zip((matrix, line, k), kinds, STRIDES, strict=True):
                place = place + along(position, kind, f"{self.side}{r}.{what}")
            reads.append(load(first + r, place, code))
        return self.value(reads)

    def pack(
        self, first: int, stage: int, target: int, at: Value, apart: Value, matrix: Value, line: Value, k: Value,
        lines: Value, deep: Value, count: Value, width: int, pitch: int, longest: int,
    ) -> list[Statement]:
        """`count` strips of lines from number `line` on, `deep` values of k from `k` on, `longest` at most.

        Strips are worked out in operand `stage`, one after the other, and packed from there. Whole strips whose lines
        lie side by side are stored where they belong at once, all of them for a value of k."""
        t, r, q = (var(f"{self.side}.{name}") for name in "trq")
        wide = const(width, "i64")
        own = min_(wide, lines - t * wide)
        value = self.element(first, matrix, line + t * wide + r, k + q)
        if not self.by_lines:
            inner = For(q.attr, ZERO, deep, (Store(stage, r * const(longest, "i64") + q, value),), vector=True)
            fill = For(r.attr, ZERO, own, (inner,))
            pack = Pack(stage, ZERO, const(longest, "i64"), ONE, target, at + t * apart, apart, own, deep, ONE, width)
            return [For(t.attr, ZERO, count, (fill, pack))]
        whole = min_(count, idiv(lines, wide))
        store = Store(target, at + t * apart + q * const(pitch, "i64") + r, value)
        direct = For(t.attr, ZERO, whole, (For(r.attr, ZERO, wide, (store,), vector=True),))
        inner = For(r.attr, ZERO, own, (Store(stage, q * wide + r, value),), vector=True)
        pack = Pack(stage, ZERO, ONE, wide, target, at + t * apart, apart, own, deep, ONE, width)
        rest = (For(q.attr, ZERO, deep, (inner,)), pack)
        return [For(q.attr, ZERO, deep, (direct,)), For(t.attr, whole, count, rest)]
