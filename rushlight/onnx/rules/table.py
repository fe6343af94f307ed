"""The table of rules, and what several families of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..building import Builder, Size
from ..model import Value

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable], Callable]:
    """The decorated function is the rule of these ops."""

    def keep(function: Callable) -> Callable:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = function
        return function

    return keep


def as_list(value: Any, count: int) -> list[Any]:
    """A setting for each of some dims: one number stands for all of them."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * count if len(values) == 1 else values


def result_of(g: Builder, index: int = 0) -> Any:
    """What tracing saw of a result."""
    return g.result[index] if isinstance(g.result, (list, tuple)) else g.result


def number(g: Builder, value: Any, like: Value) -> Value:
    """A number of a value's type."""
    return g.scalar(value, like.dtype)


def is_one(n: Any) -> bool:
    return isinstance(n, int) and n == 1


def positive(dim: int, ndim: int) -> int:
    """A dim counted from the front."""
    return dim % ndim if ndim else 0


def reshaped(g: Builder, x: Value, sizes: Sequence[int | Size]) -> Value:
    """x in another shape. One size may be -1; where one alone varies, it is told by the others."""
    varying = [i for i, n in enumerate(sizes) if isinstance(n, Size) or n == -1]
    if len(varying) == 1:
        numbers = [-1 if i == varying[0] else n for i, n in enumerate(sizes)]
        if 0 not in numbers:
            return g.node("Reshape", x, g.ints(numbers))
    zero = 1 if any(isinstance(n, Size) or n == 0 for n in sizes) else None
    return g.node("Reshape", x, g.sizes(sizes), allowzero=zero)


def permuted(g: Builder, x: Value, order: Sequence[int]) -> Value:
    """x with its dims in another order."""
    order = list(order)
    return x if order == list(range(len(order))) else g.node("Transpose", x, perm=order)


def full_size(g: Builder, x: Value) -> list[int | Size]:
    """The sizes of x."""
    return [g.size(x, d) for d in range(x.ndim)]


INT64 = _C.int64
