"""Reading what the core wrote down: words become calls (csrc/recording.cpp says what they are).

Enters: the words, and the objects that stand beside them. Leaves: `Call`s, whose tensors are `Seen`: a storage's number
and what is seen of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import _C

NONE, TENSOR, HOST, NUMBER, INT, INTS, LIST, OBJECT = range(1, 9)
DTYPES = tuple(dict.fromkeys(d for d in vars(_C).values() if isinstance(d, _C.dtype)))      # by the core's numbers


class Seen(NamedTuple):
    """What a call sees of a storage."""

    number: int
    dtype: Any
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    bits: int = 0


class Number(NamedTuple):
    """The place of a number among the objects: data of a call, not part of its structure."""

    place: int


class Host(NamedTuple):
    """The place of a tensor of the host among the objects."""

    place: int


class Call(NamedTuple):
    """One call that was written down."""

    overload: Any
    args: tuple
    results: Any

    def seen(self) -> Iterator[Seen]:
        """Every tensor it reads or makes."""
        yield from tensors_in(self.args)
        yield from tensors_in((self.results,))


def tensors_in(values: Any) -> Iterator[Seen]:
    """The tensors of this device among arguments."""
    for value in values:
        if isinstance(value, Seen):
            yield value
        elif isinstance(value, list):
            yield from tensors_in(value)


class _Reader:
    def __init__(self, words: bytes, objects: list[Any]) -> None:
        self.words = struct.unpack(f"{len(words) // 8}q", words)
        self.at, self.objects, self.next_object = 0, objects, 0

    def take(self) -> int:
        self.at += 1
        return self.words[self.at - 1]

    def integers(self, count: int) -> tuple[int, ...]:
        self.at += count
        return self.words[self.at - count : self.at]

    def object(self) -> int:
        self.next_object += 1
        return self.next_object - 1

    def value(self) -> Any:
        word = self.take()
        tag = word & 0xFF
        if tag == NONE:
            return None
        if tag in (TENSOR, HOST):
            number, offset = self.integers(2)
            ndim = word >> 16 & 0xFF
            sizes, strides = self.integers(ndim), self.integers(ndim)
            if tag == HOST:
                return Host(self.object())
            return Seen(number, DTYPES[word >> 8 & 0xFF], offset, sizes, strides, word >> 32)
        if tag == NUMBER:
            return Number(self.object())
        if tag == INT:
            return self.take()
        if tag == INTS:
            return list(self.integers(word >> 8))
        if tag == LIST:
            return [self.value() for _ in range(word >> 8)]
        self.take()       # its hash
        return self.objects[self.object()]


def read(words: bytes, objects: list[Any]) -> list[Call]:
    """The calls, in order."""
    reader, found = _Reader(words, objects), []
    while reader.at < len(reader.words):
        overload = _C.overload_at(reader.take())
        args = tuple(reader.value() for _ in overload.definition.spec.params)
        found.append(Call(overload, args, reader.value()))
    return found
