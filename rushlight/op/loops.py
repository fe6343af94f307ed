"""Ops that state their loops: whatever is neither pointwise nor a reduction,
but can say what each element of its result is.

Enters: a definition with `lower(args)`: ranges, reads, a body, and perhaps a fold, a walk or boxes that move
(loops/lowered.py). Leaves: its plan, made by the scheduler; a definition has no loops or kernels of its own. Refuses:
what `lower` refuses, results that memory cannot hold, and tensors on several devices.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..loops.lowered import Lowered
from .definition import KIND_PLANNED, OpDefinition
from .indexed import flatten
from .memory import check_memory
from .pack import BY_CODE, lowered_steps
from .pointwise import check_devices, device_of


class Loops(OpDefinition):
    """A definition whose `lower` says everything."""

    kind = KIND_PLANNED
    single: ClassVar[bool] = True        # the op returns one tensor

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def lower(self, args: tuple) -> Lowered:
        raise NotImplementedError

    def plan(self, args: tuple) -> Any:
        tensors = flatten(args)
        check_devices(self.name, tuple(tensors))
        if not self.is_planned(args):
            return None
        lowered, device = self.lower(args), device_of(args)
        slots: list[tuple] = [("new", BY_CODE[code], lowered.shape, lowered.layout, 0, 0) for code in lowered.outs]
        if device.type == "meta" or 0 in lowered.shape:
            return _C.Plan(len(tensors), device, slots, [], self.single)
        check_memory(lowered.shape, slots[0][1], device)   # before offsets that do not fit
        steps = lowered_steps(lowered, device, self.kernels, slots)
        is_checked = any(step.error >= 0 for step in steps)
        return _C.Plan(len(tensors), device, slots, steps, self.single, None, lowered.on_error if is_checked else None)
