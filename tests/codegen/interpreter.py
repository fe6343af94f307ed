"""Runs a nest statement by statement in Python: slow, plain, and the meaning that kernels are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.loops.expr import Value
from rushlight.loops.interpret import evaluate
from rushlight.loops.nest import Assign, Check, For, If, Local, Nest, Reduce, Statement, Store

COMBINE = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class Interpreter:
    """One run: operands as flat arrays, names as scalars."""

    def __init__(self, nest: Nest, arrays: Sequence[np.ndarray], params: Sequence[int]) -> None:
        self.arrays = arrays
        self.names: dict[str, object] = dict(zip(nest.params, params, strict=True))
        self.loop = nest.loop

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
        else:
            self.reduce(s)

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
