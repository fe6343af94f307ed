"""A set that remembers the order of its elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any


class OrderedSet(MutableSet):
    """A set whose elements come in the order they were added."""

    __slots__ = ("_dict",)

    def __init__(self, iterable: Iterable[Any] | None = None) -> None:
        self._dict = dict.fromkeys(iterable or ())

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> OrderedSet:
        return cls(it)

    def __contains__(self, elem: object) -> bool:
        return elem in self._dict

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._dict)

    def add(self, elem: Any) -> None:
        self._dict[elem] = None

    def discard(self, elem: Any) -> None:
        self._dict.pop(elem, None)

    def clear(self) -> None:
        self._dict.clear()

    def update(self, *others: Iterable[Any]) -> None:
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others: Iterable[Any]) -> OrderedSet:
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others: Iterable[Any]) -> OrderedSet:
        kept = [set(other) for other in others]
        return OrderedSet(e for e in self if all(e in k for k in kept))

    def difference(self, *others: Iterable[Any]) -> OrderedSet:
        gone = {e for other in others for e in other}
        return OrderedSet(e for e in self if e not in gone)

    def symmetric_difference(self, other: Iterable[Any]) -> OrderedSet:
        return self ^ OrderedSet(other)

    def issubset(self, other: Iterable[Any]) -> bool:
        return self <= set(other)

    def issuperset(self, other: Iterable[Any]) -> bool:
        return all(e in self for e in other)

    def copy(self) -> OrderedSet:
        return OrderedSet(self)

    def pop(self) -> Any:
        if not self:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def __getitem__(self, index: int) -> Any:
        return list(self._dict)[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"
