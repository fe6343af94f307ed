"""Library ops: externs whose calls the core replays. Their kernels are written for them, or belong to a library.

Enters: a definition with `meta` and either `launches(args)`, a `Schedule` of nests over the arguments, the results and
temporaries, or `steps(args, room)`, what one of the planners (gemm.py, convolve.py, fourier/transform.py, radix.py,
...) answers with. For what no Lowered states: rows that are read several times in a cache, recursions, results whose
number depends on data, products. Leaves: plans. To the compiler such an op is a call; nothing is inlined into it.
Refuses: what `meta` refuses, and tensors on several devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from .. import _C
from ..codegen.schedule.forms.launch import Schedule
from ..codegen.schedule.forms.wishes import NONE, Wishes
from .definition import KIND_PLANNED
from .extern import Extern, Spec
from .indexed import flatten
from .pack import packed
from .pointwise import check_devices, device_of
from .results import result_type
from .step import Step


class Room:
    """The slots of a plan in the making: tensors given, results, and the temporaries that steps ask for; and what was
    wished for."""

    def __init__(self, device: Any, inputs: int, outs: tuple[Spec, ...], wishes: Wishes = NONE) -> None:
        self.device, self.inputs, self.wishes = device, inputs, wishes
        self.slots: list[tuple] = [("new", s.dtype, tuple(s.shape), s.strides, -1, 0) for s in outs]

    @property
    def next(self) -> int:
        """The slot that the next temporary gets."""
        return self.inputs + len(self.slots)

    def temp(self, dtype: Any, sizes: tuple[int, ...]) -> int:
        """Memory that lives for one call."""
        self.slots.append(("temp", dtype, sizes, None, -1, 0))
        return self.next - 1


class Library(Extern):
    """A definition that names its kernels. Where `is_planned` says no, or there are no steps, `run` serves the call."""

    kind = KIND_PLANNED

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def launches(self, args: tuple) -> Schedule | None:
        """The kernels in order; their operands number the tensors given, then the results, then the temporaries."""
        raise NotImplementedError

    def steps(self, args: tuple, room: Room) -> list[Step] | None:
        """The steps of the plan; temporaries are asked of `room`."""
        result = self.launches(args)
        return None if result is None else packed(result, room.device, self.kernels, room.slots, [])

    def on_error(self, args: tuple) -> Callable[[int], None] | None:
        """What raises for an error that a kernel found; must keep no tensor alive."""
        return None

    def plan(self, args: tuple, wishes: Wishes = NONE) -> Any:
        """The plan for these arguments, heeding `wishes` where `steps` does; None where there is none."""
        tensors = flatten(args)
        check_devices(self.name, tuple(tensors))
        specs = self.meta(*args)
        if not self.is_planned(args):
            return None
        device, outs = device_of(args), (specs,) if isinstance(specs, Spec) else specs
        room = Room(device, len(tensors), outs, wishes)
        steps: list[Step] = []
        if device.type != "meta" and any(0 not in s.shape for s in outs):
            found = self.steps(args, room)
            if found is None:
                return None
            steps = found
        names = self.spec.return_names
        wrap = result_type(self.spec.name, names) if names and len(outs) > 1 else None
        on_error = self.on_error(args) if any(step.error >= 0 for step in steps) else None
        return _C.Plan(len(tensors), device, room.slots, steps, isinstance(specs, Spec), wrap, on_error)
