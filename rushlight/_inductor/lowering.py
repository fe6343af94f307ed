"""`torch._inductor.lowering`: how PyTorch's inductor writes ops as loops.

Enters: functions over PyTorch's loops, by op. Leaves: a table of them, which nothing here reads: an op's definition
says how it is written as a loop, and ops of libraries are called as they are, with the same results. Refuses: being
called, since there are no such loops to give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["lowerings", "register_lowering", "to_dtype"]
lowerings: dict[Any, Callable] = {}


def register_lowering(aten_fn: Any, broadcast: bool = False, type_promotion_kind: Any = None,
                      convert_input_to_bool: bool = False, lowering_dict: dict[Any, Callable] = lowerings) -> Callable:
    """Decorator: keep a function for an op, or for each of several."""

    def decorate(function: Callable) -> Callable:
        for op in aten_fn if isinstance(aten_fn, (list, tuple)) else (aten_fn,):
            lowering_dict[op] = function
        return function

    return decorate


def to_dtype(x: Any, dtype: Any, copy: bool = False, use_compute_types: bool = True) -> Any:
    """Refused: see above."""
    raise NotImplementedError(f"_inductor.lowering.to_dtype: PyTorch's loops are not made here, got {type(x).__name__}")
