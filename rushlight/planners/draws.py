"""Planning draws: random numbers from the default generator, in steps that the core replays.

Enters: calls of ops that draw a number for each element of their first argument, over it or as a new tensor. Leaves:
plans, for dense rows on the host; a few numbers are drawn by the core alone, more with the interpreter's lock released.
Refuses (None, and Python draws): generators of the program's own, options, complex numbers, other layouts.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from .. import _C
from ..base.shape import reaches
from ..op.definition import OpDefinition
from ..op.step import Step

FEW = 1024      # numbers from which on other threads run meanwhile


class Drawn(OpDefinition):
    """An op that draws by its `law`, or by a sampler that `reads` its argument. Its parameters: the argument, numbers,
    `generator`, and options that must not be asked for."""

    replays = True
    reads: ClassVar[str | None] = None
    keeps_strides: ClassVar[bool] = False      # those of single elements, too

    def plan(self, args: tuple) -> Any:
        at, input = [p.name for p in self.spec.params].index("generator"), args[0]
        if args[at] is not None or any(a is not None and a is not False for a in args[at + 1 :]):
            return None
        if not self.is_planned(args) or input.device.type != "cpu" or input.dtype.is_complex:
            return None
        if not (input.numel() and input._is_contiguous()):
            return None
        slot: tuple = ("arg", None, (), None, 0, 0)
        if not self.is_inplace:
            slot = ("new", input.dtype, tuple(input.shape), input.stride() if self.keeps_strides else None, -1, 0)
        return _C.Plan(1, input.device, [slot], [self.drawing(input, args[1:at])])

    def drawing(self, input: Any, numbers: tuple) -> Step:
        """The step that draws."""
        if self.reads is not None:
            name = self.reads
            return Step(lambda read, target: _C.sample(None, name, (target, read)), [0, 1], [], 1, 1, -1)
        assert self.law is not None, self
        return drawing_step(self.law(input.dtype, *numbers), 0 if self.is_inplace else 1, input.dtype, input.numel())


def drawing_step(law: tuple, slot: int, dtype: Any, numel: Any) -> Step:
    """The step that fills dense rows by a law."""
    name, *numbers = law
    if name == "range" or reaches(numel, FEW):      # integers are no numbers that a kernel takes
        return Step(lambda target: _C.sample(None, name, (target,), *numbers), [slot], [], 1, 1, -1)
    address, sampler, kind = _C.drawing_step(name, dtype.code)
    bits = [struct.unpack("<q", struct.pack("<d", x))[0] for x in (*numbers, 0.0, 0.0)[:2]]
    return Step(address, [slot], [sampler, kind, *bits, 1, numel, dtype.itemsize], 1, 1, -1)
