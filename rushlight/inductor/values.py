"""Tensors of a graph: memory that somebody makes, and how it is looked at.

Enters: sizes, strides and dtypes as tracing found them. Leaves: `Buffer`s (one allocation each, or an input of the
graph) and `Value`s, geometries over them. A view is another Value of the same Buffer; so is what an in-place op
returns. Sizes may be `Extent`s (op/extents.py): numbers that stand for those of other calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..loops.inline import row_major
from ..op.extents import Extent, outlined


class Buffer:
    """One allocation: an input of the graph (`number` says which), or memory that a unit fills."""

    def __init__(self, sizes: Sequence[int], strides: Sequence[int], dtype: Any, number: int = -1) -> None:
        self.sizes, self.strides, self.dtype, self.number = tuple(sizes), tuple(strides), dtype, number
        self.slot: int | None = number if number >= 0 else None
        self.is_output = False
        self.is_static = False          # the same from call to call, until somebody writes to it
        self.has_room = False           # behind the elements of every row, up to where the next begins

    @property
    def is_input(self) -> bool:
        return self.number >= 0

    def whole(self) -> Value:
        """The buffer as it was allocated."""
        return Value(self, self.sizes, self.strides, 0, self.dtype)


class Value:
    """Elements of a buffer; `offset` counts elements of `dtype` from its first."""

    def __init__(self, buffer: Buffer, sizes: Sequence[int], strides: Sequence[int], offset: int, dtype: Any) -> None:
        self.buffer, self.sizes, self.strides, self.offset, self.dtype = (
            buffer,
            tuple(sizes),
            tuple(strides),
            offset,
            dtype,
        )

    @property
    def varies(self) -> bool:
        """Whether one of its numbers stands for others."""
        return any(isinstance(n, Extent) for n in (*self.sizes, *self.strides, self.offset))

    @property
    def is_whole(self) -> bool:
        """Whether it is the buffer as allocated."""
        b = self.buffer
        return self.offset == 0 and self.sizes == b.sizes and self.strides == b.strides and self.dtype is b.dtype

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie in row-major order without gaps."""
        return all(n == 1 or s == r for n, s, r in zip(self.sizes, self.strides, row_major(self.sizes), strict=True))

    def line(self, inner: int) -> int | None:
        """How far rows of `inner` dims lie from each other, each in one piece; None where they lie otherwise."""
        outer, cols = self.sizes[: len(self.sizes) - inner], math.prod(self.sizes[len(self.sizes) - inner :])
        if self.varies or not outer or 0 in self.sizes:
            return None
        found = [s for n, s in zip(outer, self.strides, strict=False) if n != 1]
        line = found[-1] if found else cols
        wanted = [line * s for s in row_major(outer)] + list(row_major(self.sizes[len(outer) :]))
        same = all(n == 1 or s == w for n, s, w in zip(self.sizes, self.strides, wanted, strict=True))
        return line if same and line >= cols else None

    @property
    def byte_offset(self) -> int:
        return self.offset * self.dtype.itemsize

    def stand_in(self, device: Any, as_outline: bool = False, is_run: bool = False) -> Any:
        """A tensor of this layout for rules to look at, or its outline; what is in it means nothing. Devices have
        memory for it only where something is run on it."""
        make = _C.empty if is_run or device.type == "cpu" else _C.stand_in
        if not self.varies and not as_outline:
            return make(self.sizes, self.strides, self.dtype, device)
        result = make(hints(self.sizes), hints(self.strides), self.dtype, device)
        return outlined(result, self.sizes, self.strides)

    def settled(self) -> Value:
        """The same for these very numbers, which are conditions from now on."""
        return Value(self.buffer, map(int, self.sizes), map(int, self.strides), int(self.offset), self.dtype)

    def of(self, tensor: Any) -> Any:
        """These elements of the tensor that holds the buffer."""
        if self.is_whole:
            return tensor
        start = tensor.storage_offset() * tensor.itemsize // self.dtype.itemsize
        return _C.alias(tensor, self.sizes, self.strides, start + self.offset, self.dtype)


def fresh(sizes: Sequence[int], strides: Sequence[int] | None, dtype: Any) -> Value:
    """A new buffer of this layout (None: row-major), whole."""
    return Buffer(sizes, row_major([max(n, 1) for n in sizes]) if strides is None else strides, dtype).whole()


def fresh_lines(sizes: Sequence[int], line: int, dtype: Any) -> Value:
    """A new buffer whose rows start `line` elements from each other."""
    buffer = Buffer((*sizes[:-1], line), row_major((*sizes[:-1], line)), dtype)
    buffer.has_room = True
    return Value(buffer, sizes, buffer.strides, 0, dtype)


def hints(numbers: Sequence[Any]) -> tuple[int, ...]:
    """What the numbers are in the call that is traced."""
    return tuple([n.hint if isinstance(n, Extent) else n for n in numbers])


def named(structure: Any) -> Any:
    """Arguments as something to look them up by."""
    if isinstance(structure, Value):
        of = structure
        return (of.buffer, named(of.sizes), named(of.strides), named(of.offset), of.dtype)
    if isinstance(structure, (list, tuple)):
        return tuple([named(x) for x in structure])
    if isinstance(structure, Extent):
        return (Extent, structure.register)
    return (type(structure), str(structure) if isinstance(structure, float) else structure)


def layout_key(x: Any) -> Any:
    """Arguments as something to look up by what depends on layouts alone. Raises TypeError where sizes stand for
    others."""
    kind = type(x)
    if kind is Value:
        if not _INT.issuperset(map(type, x.sizes)) or not _INT.issuperset(map(type, x.strides)):
            raise TypeError("sizes that stand for others")
        return x.sizes, x.strides, x.dtype
    if kind is tuple or kind is list:
        return kind, *[layout_key(v) for v in x]
    if isinstance(x, Extent):
        raise TypeError("a number that stands for others")
    return kind, str(x) if kind is float else x


_INT = frozenset((int,))


def map_values(structure: Any, function: Callable, chosen: Callable[[Any], bool]) -> Any:
    """The structure with the chosen leaves exchanged."""
    if chosen(structure):
        return function(structure)
    if isinstance(structure, (list, tuple)):
        parts = [map_values(x, function, chosen) for x in structure]
        return tuple(parts) if isinstance(structure, tuple) else parts
    if isinstance(structure, dict):
        return {k: map_values(x, function, chosen) for k, x in structure.items()}
    if isinstance(structure, slice):
        return slice(*[map_values(x, function, chosen) for x in (structure.start, structure.stop, structure.step)])
    return structure


def is_value(x: Any) -> bool:
    return isinstance(x, Value)
