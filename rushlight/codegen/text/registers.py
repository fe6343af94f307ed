"""What the lowering passes around: registers, scopes, and vector loops in the making.

Enters: nothing; these are records. Leaves: `Reg` (an evaluated Value), `Scope` (a region of straight-line text with
its own memo), `VectorLoop` (width, pointers and run-time checks that a vector loop has collected).
"""

from __future__ import annotations

from ...loops.expr import Value


class NotVector(Exception):
    """The body cannot run on all lanes together (it branches on a lane, or scatters with a combine)."""


class Reg:
    """An evaluated Value: one register (or literal) per unrolled part, and for complex dtypes a second list.

    lanes 0 is a uniform scalar, and then there is one part. `depth` is the scope that holds the definition.
    """

    __slots__ = ("code", "lanes", "parts", "imag", "depth", "is_literal")

    def __init__(
        self,
        code: str,
        lanes: int,
        parts: list[str],
        depth: int,
        imag: list[str] | None = None,
        is_literal: bool = False,
    ) -> None:
        self.code, self.lanes, self.parts, self.depth = code, lanes, parts, depth
        self.imag, self.is_literal = imag, is_literal


class Scope:
    """A region of text under construction. Its last block is `label`; inner regions are spliced in when they end."""

    __slots__ = ("depth", "lines", "label", "memo", "loop", "is_guard")

    def __init__(self, depth: int, label: str, loop: VectorLoop | None = None, is_guard: bool = False) -> None:
        self.depth, self.label, self.loop, self.is_guard = depth, label, loop, is_guard
        self.lines: list[str] = []
        self.memo: dict[Value, Reg] = {}


class VectorLoop:
    """A loop that runs `lanes * unroll` elements an iteration.

    pointers: (phi name, initial pointer, byte step: literal or register), one per stream of accesses; streams finds
    them again, read names those that are read. checks: conditions (registers) under which the vector loop is right.
    transposed, gathers: see `nest.For` and `nest.Reduce`. distances: how far apart elements may lie that it reads;
    reads, stores: where those and the results begin, and the bytes from one to the next (llvm/moving.py).
    """

    def __init__(self, var: str, lanes: int, unroll: int, guard: Scope, counter: str, start: Reg) -> None:
        self.var, self.lanes, self.unroll = var, lanes, unroll
        self.guard, self.counter, self.start = guard, counter, start
        self.width = lanes * unroll
        self.transposed = self.gathers = False
        self.distances: tuple[int, ...] = ()
        self.reads: list[tuple[str, str]] = []
        self.stores: list[tuple[str, str]] = []
        self.pointers: list[tuple[str, str, str]] = []
        self.read: list[str] = []
        self.streams: dict[tuple, str] = {}
        self.checks: dict[tuple, str] = {}
