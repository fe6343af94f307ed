"""`torch._inductor.decomposition`: ops that `compile` replaces by functions of simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _decomp

__all__ = ["decompositions", "register_decomposition"]

decompositions: dict[Any, Callable] = _decomp.decomposition_table


def register_decomposition(ops: Any) -> Callable[[Callable], Callable]:
    """Decorator: the function computes what `ops` (one, or a list) do. An op that has such a function gets this one."""
    for op in ops if isinstance(ops, (list, tuple)) else (ops,):
        for overload in _decomp.overloads_of(op):
            decompositions.pop(overload, None)
    return _decomp.register_decomposition(ops, decompositions)
