"""Runs a nest statement by statement in Python: slow, plain, and the meaning that kernels are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.loops.expr import Value
from rushlight.loops.interpret import NAMES, evaluate
from rushlight.loops.nest import Assign, Check, Fetch, For, If, Local, Multiply, Nest, Pack, Reduce, Statement, Store

COMBINE = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class Interpreter:
    """One run: operands as flat arrays, names as scalars."""

    def __init__(self, nest: Nest, arrays: Sequence[np.ndarray], params: Sequence[int], unit: int = 1) -> None:
        self.names: dict[str, object] = dict(zip(nest.params, params, strict=True))
        self.loop = nest.loop
        # The memory that is the kernel's own comes last, and callers pass none.
        self.arrays = [*arrays, *(np.zeros(o.stack, NAMES[o.code]) for o in nest.operands if o.stack)]
        self.unit = unit      # what packed lines are rounded up to

    def run(self, begin: int, end: int) -> None:
        self.names.update(begin=begin, end=end)
        self.block((self.loop,))

    def value(self, value: Value) -> object:
        return evaluate([value], self.arrays, self.names)[0][()]

    def block(self, body: Sequence[Statement]) -> None:
        """Names declared inside end with the block; changes to outer names stay."""
        outer = set(self.names)
        for s in body:
            if isinstance(s, Check):
                if not self.value(s.condition):
                    self.arrays[s.cell][0] = self.value(s.value)
                    break
            else:
                self.statement(s)
        for name in set(self.names) - outer:
            del self.names[name]

    def statement(self, s: Statement) -> None:
        if isinstance(s, (Local, Assign)):
            self.names[s.name] = self.value(s.value)
        elif isinstance(s, Store):
            at, new = int(self.value(s.index)), self.value(s.value)
            target = self.arrays[s.operand]
            target[at] = new if s.combine == "set" else COMBINE[s.combine](target[at], new)
        elif isinstance(s, If):
            self.block(s.then if self.value(s.condition) else s.otherwise)
        elif isinstance(s, For):
            for k in range(int(self.value(s.start)), int(self.value(s.stop))):
                self.names[s.var] = k
                self.block(s.body)
            self.names.pop(s.var, None)
        elif isinstance(s, Pack):
            self.pack(s)
        elif isinstance(s, Multiply):
            self.multiply(s)
        elif isinstance(s, Fetch):
            int(self.value(s.index))
        else:
            self.reduce(s)

    def numbers(self, *values: Value) -> list[int]:
        return [int(self.value(v)) for v in values]

    def pack(self, s: Pack) -> None:
        start, line, step, at, apart = self.numbers(s.start, s.line, s.step, s.at, s.apart)
        lines, length, count = self.numbers(s.lines, s.length, s.count)
        pitch = -(-s.width // self.unit) * self.unit
        for strip in range(count):
            for r in range(s.width):
                there = min(strip * s.width + r, lines - 1) * line
                for k in range(length if s.pairs else 0):
                    other = min(strip * s.width + r, lines - 2 + r % 2) ^ (k & 1)
                    value = self.arrays[s.source][start + other + k // 2 * step]
                    turned = k % 2 == 1 and r % 2 == 0
                    self.arrays[s.target][at + strip * apart + k * pitch + r] = -value if turned else value
                for k in range(0 if s.pairs else length):
                    self.arrays[s.target][at + strip * apart + k * pitch + r] = self.arrays[s.source][
                        start + there + k * step
                    ]

    def multiply(self, s: Multiply) -> None:
        a_at, b_at, b_step, c_at, c_step = self.numbers(s.a_at, s.b_at, s.b_step, s.c_at, s.c_step)
        rows, columns, depth = self.numbers(s.rows, s.columns, s.depth)
        pitch = -(-s.height // self.unit) * self.unit if s.pitch is None else int(self.value(s.pitch))
        line = 0 if s.line is None else int(self.value(s.line))
        a, b, c = (self.arrays[k] for k in (s.a, s.b, s.c))
        if s.keep is not None:
            self.keep(s, a[a_at:], pitch, b[b_at:], b_step, depth)
        for r in range(rows):
            for j in range(columns):
                total = c[c_at + r * c_step + j] if self.value(s.add) else c.dtype.type(0)
                for k in range(depth):
                    left = a_at + k * pitch + r if s.line is None else a_at + r * line + k
                    total += a[left] * b[b_at + k * b_step + j]
                c[c_at + r * c_step + j] = total

    def keep(self, s: Multiply, a, pitch: int, b, b_step: int, depth: int) -> None:
        packed, width = -(-s.height // self.unit) * self.unit, s.vectors * self.unit
        left_at, right_at = self.numbers(s.keep[1], s.keep[3])
        for k in range(depth):
            for to, at, source, many in ((s.keep[0], left_at + k * packed, a[k * pitch :], s.height),
                                         (s.keep[2], right_at + k * width, b[k * b_step :], width)):
                self.arrays[to][at : at + many] = source[:many].copy()

    def reduce(self, s: Reduce) -> None:
        start, stop = int(self.value(s.start)), int(self.value(s.stop))
        self.names.update(zip(s.accs, [self.value(first) for first in s.init], strict=True))
        for k in range(start, stop):
            outer = set(self.names)
            self.names[s.var] = k
            for inner in s.body:
                self.statement(inner)
            self.names.update(zip(s.accs, [self.value(step) for step in s.step], strict=True))
            for name in set(self.names) - outer:
                del self.names[name]
