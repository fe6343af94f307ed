"""Decompositions of ops that make tensors: every constant is a `full`, every sequence an `arange`.

Enters: arguments in the order of ATen's signatures. Leaves: `RULES`, from names of ops (or `op.overload`) to functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...op import find_op


def _options(like: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
             ) -> dict[str, Any]:
    return {"dtype": like.dtype if dtype is None else dtype, "device": like.device if device is None else device}


def _filled(value: int) -> Callable:
    def rule(size: Any, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: Any = None) -> Any:
        kind = _C.get_default_dtype() if dtype is None else dtype
        return find_op("full")(list(size), value, dtype=kind, device=device)

    return rule


def _like(value: int) -> Callable:
    def rule(input: Any, *, memory_format: Any = None, **options: Any) -> Any:
        given = {k: v for k, v in options.items() if v is not None}
        if memory_format is not None:
            given["memory_format"] = memory_format
        return find_op("full_like")(input, value, **given)

    return rule


def _new(value: int) -> Callable:
    def rule(input: Any, size: Any, **options: Any) -> Any:
        return find_op("full")(list(size), value, **_options(input, **options))

    return rule


def new_full(input: Any, size: Any, fill_value: Any, **options: Any) -> Any:
    return find_op("full")(list(size), fill_value, **_options(input, **options))


def new_empty(input: Any, size: Any, **options: Any) -> Any:
    return find_op("empty")(list(size), **_options(input, **options))


def arange(*bounds: Any, **options: Any) -> Any:
    """Both bounds and the step, always."""
    start, end = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) > 2 else 1
    if options.get("dtype") is None and any(isinstance(b, float) for b in (start, end, step)):
        options["dtype"] = _C.get_default_dtype()
    return find_op("arange")(start, end, step, **options)


def eye(n: Any, m: Any = None, *, dtype: Any = None, device: Any = None, layout: Any = None,
        pin_memory: Any = None) -> Any:
    row = find_op("arange")(n, device=device).unsqueeze(-1)
    column = find_op("arange")(n if m is None else m, device=device)
    return find_op("eq")(row, column).to(_C.get_default_dtype() if dtype is None else dtype)


def linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None, layout: Any = None,
             pin_memory: Any = None) -> Any:
    """From both ends to the middle, so that the last number is the end itself."""
    if not isinstance(steps, int) or any(isinstance(x, (_C.Tensor, complex)) for x in (start, end)):
        return NotImplemented
    kind = _C.get_default_dtype() if dtype is None else dtype
    if not kind.is_floating_point:
        return NotImplemented
    if steps < 2:
        return find_op("full")([steps], start, dtype=kind, device=device)
    step = (end - start) / (steps - 1)
    place = find_op("arange")(0, steps, device=device)
    rising = place.to(kind) * step + start
    falling = ((place - (steps - 1)).neg().to(kind) * step).neg() + end
    return find_op("where")(place < steps // 2, rising, falling)


RULES: dict[str, Callable] = {
    "zeros": _filled(0), "ones": _filled(1), "zeros_like": _like(0), "ones_like": _like(1),
    "new_zeros": _new(0), "new_ones": _new(1), "new_full": new_full, "new_empty": new_empty,
    "arange": arange, "arange.start": arange, "eye": eye, "eye.m": eye, "linspace": linspace,
}
