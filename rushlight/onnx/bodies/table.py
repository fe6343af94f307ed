"""The table of bodies, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._higher_order_ops.while_loop import while_loop
from ...op import ops

BODIES: dict[str, Callable[..., Any]] = {}


def body(*names: str) -> Callable[[Callable], Callable]:
    """The decorated function computes what these ops do."""

    def keep(function: Callable) -> Callable:
        for name in names:
            assert name not in BODIES, f"two bodies for {name}"
            BODIES[name] = function
        return function

    return keep


def repeated(count: int, step: Callable[..., Sequence[Any]], *carried: Any) -> tuple[Any, ...]:
    """`step(k, *carried)` for each k below `count`: one Loop, however large that is."""
    if not count:
        return carried
    first = ops["zeros"]((1,), dtype=_C.int64, device=carried[0].device)

    def goes_on(k: Any, *values: Any) -> Any:
        return (k < count).reshape(())

    def one(k: Any, *values: Any) -> list[Any]:
        return [k + 1, *step(k, *values)]

    return tuple(while_loop(goes_on, one, (first, *carried))[1:])


def positions(n: int, like: Any) -> Any:
    """0 to n - 1."""
    return ops["arange"](n, device=like.device)


def column(a: Any, k: Any) -> Any:
    """Column k of matrices, k being a tensor of one number."""
    return a.index_select(-1, k).squeeze(-1)


def row(a: Any, k: Any) -> Any:
    """Row k of matrices."""
    return a.index_select(-2, k).squeeze(-2)


def element(v: Any, k: Any) -> Any:
    """Element k of vectors, which keep their dim."""
    return v.index_select(-1, k)
