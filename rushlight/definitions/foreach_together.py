"""Lists of tensors on a device that takes many of them in one launch.

Enters: a pointwise op's name, whether it writes over its first list, and its arguments: lists of tensors of one real
type, and numbers for all. Leaves: the results. Refuses, by None: other ops and arguments, tensors that do not lie
alike, devices that have no such launch; nothing was done then.
"""

from __future__ import annotations

import functools
from typing import Any

from rushlight import _C
from rushlight.op import find_op

NAMES = frozenset(("add", "sub", "mul", "lerp", "neg", "sqrt", "reciprocal", "abs", "exp"))
FEWEST = 3               # tensors that are sooner done so
TENSORS, NUMBER = "t", "n"


def form_of(arg: Any) -> str:
    """What an argument is to the kernel; an empty text where it is nothing that this reads."""
    if isinstance(arg, (list, tuple)):
        return TENSORS if all(isinstance(t, _C.Tensor) for t in arg) else ""
    return NUMBER if type(arg) in (int, float) else ""


@functools.cache
def update(name: str, forms: tuple[str, ...], in_place: bool) -> Any:
    """The kernels of an op on such arguments."""
    from rushlight.op.multi_tensor import DeviceUpdate  # with the code generator, at the first use

    definition = find_op(name).overload_list[0].definition

    def body(s: Any, tensors: list, numbers: list) -> dict[int, Any]:
        given, more = iter(tensors if in_place else tensors[1:]), iter(numbers)
        return {0: definition.expr(s, *[next(given if form == TENSORS else more) for form in forms])}

    return DeviceUpdate(f"foreach_{name}", forms.count(NUMBER), body, only_many=True)


def attempt(name: str, in_place: bool, args: tuple) -> tuple | None:
    """The results, or the first list where it is written over; None where others must compute them."""
    tensors, forms = args[0], tuple([form_of(a) for a in args])
    if name not in NAMES or forms[0] != TENSORS or not all(forms) or len(tensors) < FEWEST:
        return None
    lists = [a for a, form in zip(args, forms, strict=True) if form == TENSORS]
    first = tensors[0]
    alike = all(len(one) == len(tensors) and all(t.dtype is first.dtype for t in one) for one in lists)
    if not alike or not first.dtype.is_floating_point or len({id(t) for t in tensors}) != len(tensors):
        return None
    outs = tensors if in_place else [find_op("empty_like")(t) for t in tensors]
    rows = list(zip(*(lists if in_place else (outs, *lists)), strict=True))
    numbers = tuple([a for a, form in zip(args, forms, strict=True) if form == NUMBER])
    return tuple(outs) if update(name, forms, in_place).many(rows, numbers) else None


__all__ = ["attempt"]
