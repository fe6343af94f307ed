"""Packing: a schedule as the steps of a plan.

Enters: a `Schedule` (codegen/schedule) and the device. Leaves: the tuples `_C.Plan` takes, with kernels compiled or found; temporaries
become slots behind those of the results. Sizes may be symbolic: nothing here asks for them.
"""

from __future__ import annotations

from typing import Any

from .. import _C, codegen
from ..codegen.schedule import Schedule, schedule
from ..devices import handlers
from ..loops.lowered import Lowered
from ..loops.nest import Nest

BY_CODE = {d.code: d for d in vars(_C).values() if isinstance(d, _C.dtype)}


def compile_for(device: Any, nest: Any) -> Any:
    """The kernel of `nest` for `device`: an address, a device's own handle, or None where there is no data."""
    if device.type == "cpu":
        return (codegen.compile(nest) if isinstance(nest, Nest) else nest.compiled()).address
    if device.type == "meta":
        return None
    return _C.kernel_handle(handlers[device.type].load(nest))


def as_step(kernel: Any) -> Any:
    """What a plan's step holds: an address, or a device's handle marked as one."""
    return kernel if isinstance(kernel, int) else ("handle", kernel)


def shifted(operand: int | tuple[int, int], shifts: dict[int, int]) -> int | tuple[int, int]:
    """An operand with the bytes before it."""
    if isinstance(operand, tuple):
        number, start = operand
        return (number, start + shifts.get(number, 0))
    return (operand, shifts[operand]) if operand in shifts else operand


def lowered_steps(lowered: Lowered, device: Any, kernels: dict[tuple, Any], slots: list) -> list[tuple]:
    """The steps of a plan whose inputs are the tensors read, in order, and whose results are `slots`."""
    shifts = {k: m.offset * BY_CODE[m.code].itemsize for k, m in enumerate(lowered.memories) if type(m.offset) is not int or m.offset}
    return packed(schedule(lowered, device.type), device, kernels, slots, shifts)


def packed(made: Schedule, device: Any, kernels: dict[tuple, Any], slots: list, shifts: dict[int, int]) -> list[tuple]:
    """Steps of a schedule whose operands are numbered as the plan's; `shifts` are byte offsets of some. Temporaries get slots of their own."""
    slots.extend([("temp", BY_CODE[t.code], t.sizes, None, 0, 0) for t in made.temps])
    steps = []
    for launch in made.launches:
        key = (launch.key, device.type)
        kernel = kernels.get(key)
        if kernel is None:
            kernel = kernels[key] = as_step(compile_for(device, launch.nest()))
        places = [shifted(k, shifts) for k in launch.operands]
        steps.append((kernel, places, list(launch.params), launch.extent, launch.grain, launch.error))
    return steps
