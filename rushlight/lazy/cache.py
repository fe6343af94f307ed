"""What was compiled, by what was written down: the oldest goes when there is too much.

Enters: words of a recording and which storages live. Leaves: the program and what an engine made of it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

CAPACITY = 4096      # graphs


class Cache:
    """Compiled programs of one structure; each for the numbers that its kernels hold."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.entries: OrderedDict[Any, list[tuple]] = OrderedDict()

    def find(self, key: Any, objects: list[Any]) -> tuple | None:
        """(program, compiled) whose own numbers are those of this call."""
        found = self.entries.get(key)
        if found is None:
            return None
        self.entries.move_to_end(key)
        for program, compiled, numbers in found:
            if all(_same(objects[place], number) for place, number in zip(program.baked, numbers, strict=True)):
                return program, compiled
        return None

    def keep(self, key: Any, program: Any, compiled: Any, objects: list[Any]) -> None:
        """Keep what was compiled; `objects` are those it was compiled with."""
        variants = self.entries.setdefault(key, [])
        variants.insert(0, (program, compiled, [objects[place] for place in program.baked]))
        self.entries.move_to_end(key)
        while len(self.entries) > max(self.capacity, 1):
            self.entries.popitem(last=False)

    def clear(self) -> None:
        self.entries.clear()

    def __len__(self) -> int:
        return sum(map(len, self.entries.values()))


def _same(a: Any, b: Any) -> bool:
    """Whether numbers are the same for a kernel: of one type, NaN like NaN, and zeros by their signs."""
    return type(a) is type(b) and repr(a) == repr(b)
