"""Named results: `max(x, 0)` returns a tuple whose parts also have names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import itemgetter

from ..base import homes


class NamedResult(tuple):
    """A tuple of tensors with named parts, printed as PyTorch prints its return types."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    n_fields = n_sequence_fields = n_unnamed_fields = 0

    def __repr__(self) -> str:
        body = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__module__}.{type(self).__name__}(\n{body})"

    def __reduce__(self) -> tuple[Callable[..., NamedResult], tuple]:
        return _rebuild, (type(self).__name__, self._fields, tuple(self))


def _rebuild(name: str, fields: tuple[str, ...], values: tuple) -> NamedResult:
    return result_type(name, fields)(values)


@cache
def result_type(name: str, fields: tuple[str, ...]) -> type[NamedResult]:
    """The class of results of op `name` with these part names."""
    body: dict[str, object] = {f: property(itemgetter(i)) for i, f in enumerate(fields)}
    body |= {"__slots__": (), "_fields": fields, "n_fields": len(fields), "n_sequence_fields": len(fields)}
    result = type(name, (NamedResult,), body)
    homes.settle(result, "return_types")
    return result
