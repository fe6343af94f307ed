"""Squares of elements that are read row by row and used column by column: exchanged in registers.

Enters: the addresses of as many rows as a register has lanes, and an element type. Leaves: text that reads that many
elements of every row, and registers that hold element k of all rows, real and imaginary parts apart.

Registers exchange lanes within quarters of 128 bits first, then quarters. Every step is one that processors have an
instruction for and LLVM finds at once (others took it 0.5 ms each). Where a register has four quarters, its halves are
read from two rows: that instruction need not wait for the one unit that exchanges lanes. The last step is taken when a
column is asked for: what follows then has fewer of them to hold.
"""

from __future__ import annotations

from . import primitives as p


class Square:
    """`rows`: where the rows begin."""

    def __init__(self, out: p.Output, lines: list[str], code: str, rows: list[str]) -> None:
        self.out, self.lines, self.lanes = out, lines, len(rows)
        self.is_complex, self.part = code in p.PARTS, p.PARTS.get(code, code)
        self.each = min(16 // p.SIZE[self.part], self.lanes)     # elements of a quarter
        self.is_halved = self.lanes == 4 * self.each
        if self.is_halved:
            pairs = [(k, k + self.each) for k in range(self.lanes) if not k // self.each % 2]
            read = [self.joined(rows[a], rows[b]) for a, b in pairs]
        else:
            read = [self.whole(row) for row in rows]
        count = 2 if self.is_complex else 1
        self.blocks = [
            [Exchange(out, lines, p.type_of(self.part, self.lanes), self.each, [row[block][k] for row in read])
             for k in range(count)]
            for block in range(len(read[0]))
        ]

    def column(self, k: int) -> list[str]:
        """Element k of all rows: a register, or one of real and one of imaginary parts."""
        block, at = divmod(k, self.lanes // len(self.blocks))
        place = self.order().index(at)
        return [exchange.result(place) for exchange in self.blocks[block]]

    def order(self) -> list[int]:
        """Which element of a row each result of a block is."""
        width = self.lanes // (2 if self.is_halved else 1)
        if not self.is_complex:
            return list(range(width))
        few, quarters = self.each // 2, width // self.each
        return [k // few * (width // 2) + q * few + k % few for q in range(quarters) for k in range(self.each)]

    def whole(self, row: str) -> list[list[str]]:
        """A row in a register, or in two, as one block."""
        size = self.lanes * p.SIZE[self.part]
        if not self.is_complex:
            return [[p.load(self.out, self.lines, self.part, row, self.lanes)]]
        behind = self.out.emit(self.lines, f"getelementptr i8, ptr {row}, i64 {size}")
        first, second = (p.load(self.out, self.lines, self.part, at, self.lanes) for at in (row, behind))
        return [self.parts(first, second)]

    def joined(self, a: str, b: str) -> list[list[str]]:
        """The first halves of two rows together, then their second halves: two blocks."""
        half, pieces = self.lanes // 2, []
        narrow, order = p.type_of(self.part, half), list(range(self.lanes))
        for piece in range(4 if self.is_complex else 2):
            both = []
            for row in (a, b):
                at = self.out.emit(self.lines, f"getelementptr i8, ptr {row}, i64 {piece * half * p.SIZE[self.part]}")
                both.append(p.load(self.out, self.lines, self.part, at, half))
            pieces.append(shuffled(self.out, self.lines, narrow, (both[0], both[1]), order))
        return [self.parts(*pieces[k : k + 2]) for k in (0, 2)] if self.is_complex else [[piece] for piece in pieces]

    def parts(self, first: str, second: str) -> list[str]:
        """Real and imaginary parts, in an order that takes one instruction: what follows exchanges lanes anyway."""
        few, ty = self.each // 2, p.type_of(self.part, self.lanes)
        order = [
            q * self.each + 2 * (k % few) + k // few * self.lanes
            for q in range(self.lanes // self.each)
            for k in range(self.each)
        ]
        pair = first, second
        return [shuffled(self.out, self.lines, ty, pair, [x + imag for x in order]) for imag in (0, 1)]


class Exchange:
    """Registers whose elements are exchanged, so that each holds the same one of every row."""

    def __init__(self, out: p.Output, lines: list[str], ty: str, each: int, vectors: list[str]) -> None:
        self.out, self.lines, self.type, self.vectors = out, lines, ty, vectors
        lanes = int(ty[1:].split(" ", 1)[0])
        low = [q * each + k // 2 + (k % 2) * lanes for q in range(lanes // each) for k in range(each)]
        even = [
            2 * q % (lanes // each) * each + k + 2 * q * each // lanes * lanes
            for q in range(lanes // each)
            for k in range(each)
        ]
        inner, bits = each.bit_length() - 1, len(vectors).bit_length() - 1
        steps = [(bit, low, each // 2) for bit in reversed(range(inner))] + [
            (bit, even, each) for bit in range(inner, bits)
        ]
        self.last, self.is_done = steps[-1], [False] * len(vectors)
        for step in steps[:-1]:
            for k in range(len(vectors)):
                if not k >> step[0] & 1:
                    self.step(k, *step)

    def step(self, k: int, bit: int, order: list[int], second: int) -> None:
        """Two registers exchange half of their lanes."""
        other = k | 1 << bit
        pair = self.vectors[k], self.vectors[other]
        self.vectors[k], self.vectors[other] = (
            shuffled(self.out, self.lines, self.type, pair, [x + shift for x in order]) for shift in (0, second)
        )

    def result(self, k: int) -> str:
        bit = 1 << self.last[0]
        if not self.is_done[k]:
            self.step(k & ~bit, *self.last)
            self.is_done[k & ~bit] = self.is_done[k | bit] = True
        return self.vectors[k]


def shuffled(out: p.Output, lines: list[str], ty: str, pair: tuple[str, str], order: list[int]) -> str:
    """Lanes of two registers of a type, in an order."""
    mask = ", ".join(f"i32 {k}" for k in order)
    return out.emit(lines, f"shufflevector {ty} {pair[0]}, {ty} {pair[1]}, <{len(order)} x i32> <{mask}>")


__all__ = ["Square", "shuffled"]
