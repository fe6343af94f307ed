"""Sizes, layouts and memory formats: the small values that describe how a tensor is arranged.

Enters: ints and names. Leaves: `Size`, a tuple that stays a Size when sliced, added or repeated, and the constants
`strided`, `contiguous_format`, `channels_last`, `channels_last_3d`, `preserve_format`. Refuses sizes that are not ints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from .. import _C

if TYPE_CHECKING:
    from ..symbols.numbers import Dim

INTS = (int, _C.SymbolicInt)     # what a size may be: `isinstance(n, INTS)`
NUMBERS = (int, float, _C.SymbolicInt, _C.SymbolicFloat)


def surely(condition: object) -> bool:
    """Whether a condition on sizes holds. Of sizes that only elements can tell nothing is asked: then it does not."""
    if condition is True or condition is False:
        return condition
    from ..symbols import guard_or_false  # noqa: PLC0415 - most programs never have a symbolic size

    return guard_or_false(condition)


def or_one(n: Dim) -> Any:
    """A size as strides count it: at least 1."""
    if isinstance(n, int):
        return max(n, 1)
    from ..symbols import sym_max  # noqa: PLC0415 - most programs never have a symbolic size

    return sym_max(n, 1)


def is_hidden(n: object) -> bool:
    """Whether only elements can tell a number: then nothing may be asked of it, and formulas must do."""
    return isinstance(n, _C.SymbolicInt) and not n.has_hint()


def holds(condition: object) -> bool:
    """Whether something required of sizes holds; where only elements can tell, whoever runs the result checks it."""
    return condition.expect_true() if isinstance(condition, _C.SymbolicBool) else bool(condition)


def reaches(n: Dim, limit: int) -> bool:
    """Whether a number is known to be at least `limit`. For choices of speed: of a symbolic size nothing is asked,
    so no guard comes of them.

    Sizes of a plan that is traced for many shapes do answer: such a plan is as fast as one for a single shape.
    """
    return isinstance(n, (int, _C.Extent)) and n >= limit


def is_below(n: Dim, limit: int) -> bool:
    """Whether a number is known to be less than `limit`; no for symbolic sizes, as with `reaches`."""
    return isinstance(n, (int, _C.Extent)) and n < limit


class Size(tuple):
    """The sizes of a tensor, one per dimension."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        values = tuple(sizes)
        for i, value in enumerate(values):
            if type(value) is not int and not isinstance(value, _C.SymbolicInt):
                try:
                    index(value)
                except TypeError:
                    kind = type(value).__name__
                    raise TypeError(f"rushlight.Size() takes an iterable of 'int' (item {i} is '{kind}')") from None
        return tuple.__new__(cls, (v if isinstance(v, INTS) and type(v) is not bool else index(v) for v in values))

    def numel(self) -> int:
        """How many elements a tensor of this size has."""
        return math.prod(self)

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        found = tuple.__getitem__(self, key)
        return tuple.__new__(type(self), found) if isinstance(key, slice) else found

    def __add__(self, other: tuple) -> Any:
        joined = tuple.__add__(self, other)
        return NotImplemented if joined is NotImplemented else Size(joined)

    def __radd__(self, other: tuple) -> Any:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Any:
        repeated = tuple.__mul__(self, times)
        return NotImplemented if repeated is NotImplemented else tuple.__new__(Size, repeated)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{_C.get_display_module()}.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple:
        return Size, (tuple(self),)


class _Named:
    """A constant known by its name: one instance per name, compared by identity, pickled by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{_C.get_display_module()}.{self.name}"

    def __reduce__(self) -> tuple:
        return _constant, (self.name,)


class layout(_Named):  # noqa: N801 - PyTorch's name
    """How elements are laid out in general: `strided`, one of the sparse layouts, or `jagged`."""

    __slots__ = ()

    def __reduce__(self) -> tuple:
        return _get_layout, (f"torch.{self.name}",)


class memory_format(_Named):  # noqa: N801 - PyTorch's name
    """Which order of dimensions is dense in memory."""


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")
contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")

_LAYOUTS = (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
_CONSTANTS = {c.name: c for c in (*_LAYOUTS, contiguous_format, channels_last, channels_last_3d, preserve_format)}


def _constant(name: str) -> _Named:
    return _CONSTANTS[name]


def _get_layout(name: str) -> layout:
    """The layout that PyTorch's files call `name`, such as 'torch.sparse_coo'."""
    found = _CONSTANTS.get(str(name).removeprefix("torch."))
    if not isinstance(found, layout):
        raise RuntimeError(f"there is no layout called {name!r}")
    return found


_get_layout.__module__ = "rushlight.serialization"    # where files say it is
Size.__module__ = "rushlight"


def strides_for(sizes: tuple[int, ...], order: memory_format) -> tuple[int, ...]:
    """Dense strides of a tensor of `sizes` in a memory format; RuntimeError if the format needs other dims."""
    if order is contiguous_format:
        return _dense(sizes, range(len(sizes) - 1, -1, -1))
    wanted = {channels_last: 4, channels_last_3d: 5}.get(order)
    if wanted is None:
        raise RuntimeError(f"unsupported memory format option {order!r}")
    if len(sizes) != wanted:
        raise RuntimeError(f"required rank {wanted} tensor to use {order.name} format, got {len(sizes)} dimensions")
    return _dense(sizes, [1, *range(len(sizes) - 1, 1, -1), 0])


def _dense(sizes: tuple[int, ...], order: Iterable[int]) -> tuple[int, ...]:
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= or_one(sizes[dim])
    return tuple(strides)
