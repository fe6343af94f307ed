"""What a thread works on, where each has a few elements of a result.

A load takes long, and a thread that has but one waits for it most of its time: with several that do not depend on each
other it waits once. Elements of a thread are far apart, so that those of neighbouring threads lie side by side; the
last ones repeat the result's last element. Kernels with them take two parameters more: `apart` and `count`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....loops.expr import Value, cast, const, idiv, irem, min_, var

EACH = 4                 # elements of a thread
MANY = 1 << 20           # elements that keep a unit busy even if threads are so many times fewer
SMALL = 1 << 31          # elements that are counted in 32 bits, which are divided sooner


def items_of(numel: int) -> tuple[int, bool]:
    """How many elements a thread has, and whether they are counted in 32 bits."""
    return EACH if numel >= MANY else 1, bool(numel < SMALL)


def strided(each: int) -> list[Value]:
    """The numbers of a thread's elements."""
    last = var("count") - const(1, "i64")
    return [var("i") if not k else min_(var("i") + var("apart") * const(k, "i64"), last) for k in range(each)]


def position_of(item: Value, sizes: Sequence[str], small: bool) -> list[Value]:
    """Where number `item` of all positions is, along each of `sizes`, the last fastest."""
    code, found = "u32" if small else "i64", []
    rest = cast(item, code)
    for k in range(len(sizes) - 1, -1, -1):
        n = cast(var(sizes[k]), code)
        found.append(cast(irem(rest, n) if k else rest, "i64"))
        rest = idiv(rest, n) if k else rest
    return found[::-1]


__all__ = ["items_of", "position_of", "strided"]
