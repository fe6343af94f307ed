"""Packing: a schedule as the steps of a plan.

Enters: a `Schedule` (codegen/schedule) and the device. Leaves: the steps `_C.Plan` takes (step.py), with kernels
compiled or found; temporaries become slots behind those of the results. Sizes may be symbolic: nothing here asks for
them.
"""

from __future__ import annotations

from typing import Any

from .. import _C, codegen
from ..codegen.schedule import Schedule, schedule
from ..codegen.schedule.forms.wishes import NONE, Wishes
from ..codegen.stored.cache import note_handle
from ..devices import handlers
from ..devices.failures import failure
from ..loops.lowered import Lowered, Table
from ..loops.nest import Nest
from .step import Step

BY_CODE = {d.code: d for d in vars(_C).values() if isinstance(d, _C.dtype)}


def compile_for(device: Any, nest: Any) -> Any:
    """The kernel of `nest` for `device`: an address, a device's own handle, or None where there is no data."""
    if device.type == "cpu":
        return (codegen.compile(nest) if isinstance(nest, Nest) else nest.compiled()).address
    if device.type == "meta":
        return None
    handler = handlers[device.type]
    try:
        loaded = handler.load(nest)
        if loaded is None:
            raise TypeError("expected a kernel, which `launch` is given, got None")
    except Exception as error:
        if device.type == "cuda":      # which says itself what it could not load
            raise
        raise failure(handler, "load", error, nest) from error
    return note_handle(_C.kernel_handle(loaded), nest)


def as_step(kernel: Any) -> Any:
    """What a plan's step holds: an address, or a device's handle marked as one."""
    return kernel if isinstance(kernel, int) else ("handle", kernel)


packers: set[int] = set()      # kernels that read all their operands but the last, and write that


def packer(kernel: int) -> int:
    """A kernel that lays an operand out for another one: where the operand stays the same, once is enough."""
    packers.add(kernel)
    return kernel


Place = tuple[int, int]      # a slot, and bytes before the first element


def lowered_steps(
    lowered: Lowered, device: Any, kernels: dict[tuple, Any], slots: list, wishes: Wishes = NONE
) -> list[Step]:
    """The steps of a plan whose inputs are the tensors read, in order, and whose results are `slots`;
    tables travel with the steps."""
    places: list[Place] = []
    constants, inputs = bytearray(), 0
    for m in lowered.memories:
        if isinstance(m, Table):
            places.append((-1, len(constants)))
            constants += m.values or bytes(8)
            constants += bytes(-len(constants) % 8)
        else:
            places.append((inputs, m.offset * BY_CODE[m.code].itemsize))
            inputs += 1
    return packed(schedule(lowered, device.type, wishes), device, kernels, slots, places, bytes(constants))


def placed(operand: int | Place, places: list[Place], tables: int) -> int | Place:
    """An operand of a launch as the plan numbers it: the tables among them have no number,
    and those behind them count on."""
    number, start = operand if isinstance(operand, tuple) else (operand, 0)
    if number < 0:
        return operand
    if number < len(places):
        slot, shift = places[number]
        start = start + shift
    else:
        slot = number - tables
    return slot if type(start) is int and start == 0 and slot >= 0 else (slot, start)


def packed(
    result: Schedule, device: Any, kernels: dict[tuple, Any], slots: list, places: list[Place], constants: bytes = b""
) -> list[Step]:
    """Steps of a schedule; `places` are those of its first operands. Temporaries get slots of their own."""
    slots.extend([("temp", BY_CODE[t.code], t.sizes, None, 0, 0) for t in result.temps])
    steps, tables = [], sum([slot < 0 for slot, _ in places])
    for launch in result.launches:
        key = (launch.key, device.type)
        kernel = kernels.get(key)
        if kernel is None:
            kernel = kernels[key] = as_step(compile_for(device, launch.nest()))
            if launch.packs and isinstance(kernel, int):
                packer(kernel)
        own = [placed(k, places, tables) for k in launch.operands]
        error = launch.error if launch.error < 0 else placed(launch.error, places, tables)
        assert isinstance(error, int), "a cell of errors begins its slot"
        given = launch.constants or constants
        steps.append(Step(kernel, own, list(launch.params), launch.extent, launch.grain, error, given))
    return steps
