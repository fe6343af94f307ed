"""A step of a plan, as planners write it and the core reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One launch of a kernel, or one call of a Python function, over slots of the plan. The core reads it by position.

    `kernel`: an address, a device's handle marked as one, or a function of the operands' tensors. `operands`: slots, or
    (slot, bytes before the first element); slot -1 is `constants`. `extent` items are divided among threads, `grain` at
    a time. `error`: the slot of a number that says what went wrong, -1 for none, which `on_error` raises for (in a plan
    put together of several; else the plan's own does).
    """

    kernel: Any
    operands: list[Any]
    params: list[Any]
    extent: Any
    grain: Any = 1
    error: int = -1
    constants: bytes = b""
    on_error: Callable[[int], None] | None = None


__all__ = ["Step"]
