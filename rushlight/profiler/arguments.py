"""Arguments of calls as PyTorch's op takes them, where they differ from ours: the rows of arguments.txt.

Enters: a call as it was spelled, with what a recording kept of its arguments (a list stands for a tensor). Leaves: the
values in PyTorch's order, or None where no row speaks of the call.
"""

from __future__ import annotations

import functools
from types import CodeType
from typing import Any

from .. import _C
from ..base.tables import rows


@functools.cache
def _table() -> dict[str, list[tuple[CodeType | None, CodeType]]]:
    """Rows by our spelling: (condition or None, the arguments)."""
    found: dict[str, list[tuple[CodeType | None, CodeType]]] = {}
    for row in rows(__file__, "arguments"):
        head, _, expressions = row.partition(": ")
        ours, _, condition = head.partition(" if ")
        test = compile(condition, f"<call of {ours}>", "eval") if condition else None
        made = compile(f"({expressions.strip()},)", f"<arguments of {ours}>", "eval")
        for name in ours.split():
            found.setdefault(name, []).append((test, made))
    return found


def many(value: Any, count: int) -> tuple[Any, ...]:
    """A list of `count` numbers: those given, or one for all; none where none was given."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        flat = value[0] if len(value) == 1 and isinstance(value[0], tuple) else value
        return flat * count if len(flat) == 1 and count > 1 else flat
    return (value,) * max(count, 1)


def floats(value: Any, count: int) -> tuple[float, ...] | None:
    """The same of floats; None for None."""
    return None if value is None else tuple(map(float, many(value, count)))


def kept_sizes(tensor: Any, value: Any, count: int) -> tuple[Any, ...]:
    """Sizes of which None stands for the tensor's own."""
    wanted = many(value, count) if value is not None else (None,) * count
    return tuple(own if size is None else size for own, size in zip(tensor[0][-count:], wanted, strict=True))


def defaults(given: tuple[Any, ...], *values: Any) -> tuple[Any, ...]:
    """What was given, and the defaults of the rest."""
    return (*given, *values[len(given):])


def listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors that were given one by one, or in one list."""
    return values[0] if len(values) == 1 and isinstance(values[0], tuple) else values


def _scope() -> dict[str, Any]:
    dtypes = {name: getattr(_C, name) for name in dir(_C) if isinstance(getattr(_C, name), _C.dtype)}
    return {
        **dtypes, "many": many, "floats": floats, "kept_sizes": kept_sizes, "defaults": defaults, "listed": listed,
        "truth": bool, "ndim": lambda tensor: len(tensor[0]), "dtype_of": lambda tensor: tensor[2],
        "is_tensor": lambda value: isinstance(value, list), "is_dtype": lambda value: isinstance(value, _C.dtype),
        "__builtins__": {},
    }


_names = functools.cache(_scope)


class _Given(dict):
    """Parameters by name; those that an overload does not have are None, but for names of the scope."""

    def __missing__(self, name: str) -> Any:
        return _names().get(name)


def arguments_of(spelling: str, given: dict[str, Any], values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments of PyTorch's op for a call of ours; None where no row fits."""
    scope = _Given(given, args=values)
    for test, made in _table().get(spelling, ()):
        if test is None or eval(test, _names(), scope):  # noqa: S307 - rows of our own table
            return eval(made, _names(), scope)  # noqa: S307
    return None
