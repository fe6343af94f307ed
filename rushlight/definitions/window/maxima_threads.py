"""The gradient of windows' maxima where every element has a thread: sums meet by atomic instructions.

Enters: types and layout of `_window_max_backward`'s arguments. Leaves: steps of its plan on a plugged-in device: the
result (of half types: one in single precision) is cleared, every gradient is added where its maximum was, and a result
of a half type is made of the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...codegen.schedule import SCHEDULERS, gpu
from ...loops.expr import and_, cast, const, ge, idiv, irem, load, lt, select, var
from ...loops.nest import Check, Nest, Statement, Store, operands, rows
from ...op.pack import as_step, compile_for

HALF = ("f16", "bf16")
ZERO, ONE = const(0, "i64"), const(1, "i64")


def suits(device: Any, code: str) -> bool:
    """Whether a device's elements are threads'; sums must have an atomic instruction."""
    return SCHEDULERS.get(device.type) is gpu.schedule and code in ("f32", "f64", *HALF)


def steps(
    kernels: dict[tuple, Any], device: Any, code: str, index: str, channels: bool, checked: bool,
    sizes: Sequence[int], slots: list[tuple], new_temp: Callable[[str, int], tuple],
) -> list[tuple]:  # fmt: skip
    """Steps over slots 0 (gradients), 1 (positions) and 2 (the result). `sizes`: gradients, elements of the result,
    gradients of a plane, elements of a plane, channels."""
    count, elements, length, plane, wide = sizes
    kept = "f32" if code in HALF else code
    target, cell = 2, -1
    if kept != code:
        slots.append(new_temp(kept, elements))
        target = len(slots) + 1
    if checked:
        slots.append(new_temp("i64", 1))
        cell = len(slots) + 1

    def kernel(name: str, make: Callable[[], Nest]) -> Any:
        key = (name, code, index, channels, checked, device.type)
        if key not in kernels:
            kernels[key] = as_step(compile_for(device, make()))
        return kernels[key]

    clear = kernel("clear", lambda: Nest("window_clear", operands([], [kept]), (),
                                         rows(Store(0, var("i"), const(0, kept)), vector=True)))  # fmt: skip
    add = kernel("add", lambda: add_nest(code, kept, index, channels, checked))
    made = [
        (clear, [target], [], elements, 1, -1),
        (add, [0, 1, target, *([cell] if checked else [])], [length, plane, wide], count, 1, cell),
    ]
    if kept != code:
        last = kernel("narrow", lambda: Nest("window_narrow", operands([kept], [code]), (), rows(
            Store(1, var("i"), cast(load(0, var("i"), kept), code)), vector=True)))  # fmt: skip
        made.append((last, [target, 2], [], elements, 1, -1))
    return made


def add_nest(code: str, kept: str, index: str, channels: bool, checked: bool) -> Nest:
    """A thread for each gradient."""
    i, at = var("i"), cast(load(1, var("i"), index), "i64")
    if channels:
        channel, rest = irem(i, var("channels")), idiv(i, var("channels"))
        target = (idiv(rest, var("length")) * var("plane") + at) * var("channels") + channel
    else:
        target = idiv(i, var("length")) * var("plane") + at
    body: list[Statement] = []
    if checked:
        body.append(Check(and_(ge(at, ZERO), lt(at, var("plane"))), 3, select(ge(at, ZERO), at + ONE, at)))
    body.append(Store(2, target, cast(load(0, i, code), kept), "add"))
    made = operands([code, index], [kept], ["i64"] if checked else [])
    return Nest("window_add", made, ("length", "plane", "channels"), rows(*body, vector=not checked))
