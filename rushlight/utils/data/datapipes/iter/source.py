"""Where a pipeline begins: any iterable."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from ..datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]

_T = TypeVar("_T")


def length_of(pipe: Any, source: Any) -> int:
    """The length of `source`, for `pipe`, which has it if that does."""
    if isinstance(source, Sized):
        return len(source)
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


class IterableWrapperIterDataPipe(IterDataPipe[_T]):
    """The items of `iterable`; with `deepcopy`, of a copy of it made for each pass."""

    def __init__(self, iterable: Iterable[_T], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[_T]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "IterableWrapper: the iterable cannot be deep-copied, so changes made in place reach the source.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return length_of(self, self.iterable)
