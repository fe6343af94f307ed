"""Transforms of dense tensors over their last dims as plans, by the library of a device.

Enters: a tensor, dims, what to transform ("c2c", "r2c", "whole": real numbers to a whole spectrum, "c2r") and a scale.
Leaves: a schedule: what the library may not read is copied, it transforms, and results are scaled where that is asked.
None for other layouts, and where the device has no library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ...codegen.schedule.forms.launch import Launch, Schedule, Temp
from ...devices import handlers
from ...loops.expr import PART, arg, bitcast, cast, load, var
from ...loops.nest import Nest, Store, operands, pointwise_nest, rows

SIZES = {"f32": 4, "f64": 8, "c64": 8, "c128": 16}
COMPLEX = {"f32": "c64", "f64": "c128"}


def library_launches(input: Any, dim: Sequence[int], what: str, scale: float, forward: bool, size: int = 0) -> Any:
    """The launches; `size`: real points of the last dim, of a transform to real numbers."""
    shape, count, handler = tuple(input.shape), len(dim), handlers.get(input.device.type)
    if handler is None or not count or not all(type(n) is int for n in (*shape, size)):
        return None
    if not input._is_contiguous() or input.is_conj() or sorted(d % len(shape) for d in dim) != last_dims(shape, count):
        return None
    if what != "c2c" and dim[-1] % len(shape) != len(shape) - 1:
        return None
    part = PART.get(input.dtype.code, input.dtype.code)
    points = [*shape[-count:-1], size or shape[-1]]
    if what == "c2r" and shape[-1] != size // 2 + 1:
        return None
    batch = math.prod(shape[:-count])
    found = handler.transform("c2c" if what == "whole" else what, part, points, batch, input.device.index)
    if found is None:
        return None
    library, given, room = found
    code, launches, temps, source, space = COMPLEX[part], [], [Temp("u8", (max(room, 1),))], 0, 2
    if what in ("whole", "c2r"):
        numel = math.prod(shape)
        launches.append(copied(input.dtype.code, code, numel))
        temps.append(Temp(code, (numel,)))
        source = 3
    direction = -1 if forward else 1
    launches.append(Launch(("library fft",), lambda: library, (source, 1, space), (*given, direction), 1, 1))
    if scale != 1.0:
        numbers = batch * math.prod(points[:-1]) * (points[-1] // 2 + 1 if what == "r2c" else points[-1])
        parts = numbers * (1 if what == "c2r" else 2)
        bits = struct.unpack("q", struct.pack("d", scale))[0]
        launches.append(Launch(("fft scale", part), lambda: scale_nest(part), (1,), (bits,), parts, 1))
    return Schedule(tuple(launches), tuple(temps))


def last_dims(shape: Sequence[int], count: int) -> list[int]:
    return list(range(len(shape) - count, len(shape)))


def copied(source: str, target: str, numel: int) -> Launch:
    """The input as complex numbers that may be written over, in the second temporary."""
    given = (numel, SIZES[source], SIZES[target], 0, 0)
    return Launch(("fft copy", source, target),
                  lambda: pointwise_nest("copy", [source], [target], [cast(arg(0, source), target)]), (0, 3), given, 1,
                  1)


def scale_nest(part: str) -> Nest:
    """Parts of numbers multiplied in place."""
    factor = cast(bitcast(var("factor"), "f64"), part)
    return Nest("fft_scale", operands([], [part]), ("factor",),
                rows(Store(0, var("i"), load(0, var("i"), part) * factor), vector=True))


__all__ = ["library_launches"]
