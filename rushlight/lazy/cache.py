"""What was compiled, by what was written down: the oldest goes when there is too much.

Enters: words of a recording and which storages live. Leaves: the program and what an engine made of it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

from ..serialization.sources import replaced

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


caches: dict[str, Cache] = {}      # by device


def reset() -> None:
    """Forget what was compiled."""
    for cache in caches.values():
        cache.clear()


def dump(dot_file_name: str) -> None:
    """What was compiled, as a graph in the language of Graphviz."""
    lines = ["digraph G {"]
    for device, cache in caches.items():
        lines.append(f'  {device} [label="{device}: {len(cache)} graphs"]')
        for k, variants in enumerate(cache.entries.values()):
            for n, (program, _, _) in enumerate(variants):
                calls = f"{len(program.calls)} calls\\n{len(program.inputs)} inputs, {len(program.outputs)} outputs"
                lines.append(f'  {device}_{k}_{n} [label="{calls}"]\n  {device} -> {device}_{k}_{n}')
    with replaced(dot_file_name) as fd:
        os.write(fd, ("\n".join([*lines, "}"]) + "\n").encode())


def _same(a: Any, b: Any) -> bool:
    """Whether numbers are the same for a kernel: of one type, NaN like NaN, and zeros by their signs."""
    if type(a) is not type(b):
        return False
    return (type(a) is not complex and a == b != 0) or repr(a) == repr(b)
