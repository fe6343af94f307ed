"""Sequences, which are lists, and optionals, which are None or a value."""

from __future__ import annotations

from typing import Any

from .... import _C, ops
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


def _place(position: Any, length: int, after: int = 0) -> int:
    at = int(as_tuple(position)[0])
    if not -length <= at < length + after:
        raise IndexError(f"a sequence of {length} elements has no place {at}")
    return at + length if at < 0 else at


@rule("SequenceConstruct", since=11)
def construct(*values: Any) -> list:
    return list(values)


@rule("SequenceEmpty", since=11, draws=True)
def empty(*, dtype: int = 1) -> list:
    return []


@rule("SequenceInsert", since=11, host=(2,))
def insert(sequence: list, value: Any, position: Any = None) -> list:
    at = len(sequence) if position is None else _place(position, len(sequence), 1)
    return [*sequence[:at], value, *sequence[at:]]


@rule("SequenceErase", since=11, host=(1,))
def erase(sequence: list, position: Any = None) -> list:
    at = len(sequence) - 1 if position is None else _place(position, len(sequence))
    return [*sequence[:at], *sequence[at + 1 :]]


@rule("SequenceAt", since=11, host=(1,))
def element_at(sequence: list, position: Any) -> Any:
    return sequence[_place(position, len(sequence))]


@rule("SequenceLength", since=11, gives=lambda numbers, settings: 7)
def length(sequence: list, *, anchor: Any) -> Any:
    return aten.scalar_tensor(len(sequence), dtype=_C.int64, device=anchor.device)


@rule("ConcatFromSequence", since=11)
def concat_from_sequence(sequence: list, *, axis: int, new_axis: int = 0) -> Any:
    return aten.stack(list(sequence), axis) if new_axis else aten.cat(list(sequence), axis)


@rule("SplitToSequence", since=11, host=(1,))
def split_to_sequence(x: Any, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> list:
    if sizes is None:
        parts = aten.split(x, 1, axis)
        return [p if keepdims else aten.squeeze(p, axis) for p in parts]
    if isinstance(sizes, tuple):
        return list(aten.split(x, list(sizes), axis))
    return list(aten.split(x, sizes, axis))


@rule("Optional", since=15)
def optional(x: Any = None, *, type: Any = None) -> Any:    # noqa: A002 - ONNX's name
    return x


@rule("OptionalGetElement", since=15)
def get_element(x: Any) -> Any:
    if x is None:
        raise ValueError("OptionalGetElement: the optional is empty")
    return x


@rule("OptionalHasElement", since=15, gives=lambda numbers, settings: 9)
def has_element(x: Any = None, *, anchor: Any) -> Any:
    return aten.scalar_tensor(x is not None, dtype=_C.bool, device=anchor.device)


