"""Where everything of a plan lies: weights in one file, results in the caller's memory, temporaries in one workspace.

Enters: a compiled graph (slots and steps; numbers may be Extents). Leaves: a `Layout`: for every slot what it is, and
bins of the workspace that temporaries share which are not needed at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..op.extents import Extent
from .kernels import NotFreestanding

ALIGNMENT = 64


class Home(NamedTuple):
    """Where a slot is: `kind` is input, weight, output, bin; `index` says which."""

    kind: str
    index: int


class Copy(NamedTuple):
    """A result that lies elsewhere when the steps are done: bytes are copied."""

    output: int
    slot: int
    offset: Any
    size: Any


class Layout(NamedTuple):
    """Homes of all slots, sizes of bins (numbers, of which the largest counts), and copies at the end."""

    homes: dict[int, Home]
    bins: list[list[Any]]
    copies: list[Copy]


def hint(n: Any) -> int:
    return n.hint if isinstance(n, Extent) else int(n)


def product(sizes: Sequence[Any]) -> Any:
    result: Any = 1
    for n in sizes:
        result = n * result
    return result


def span(sizes: Sequence[Any], strides: Sequence[Any] | None, itemsize: int) -> Any:
    """Bytes that a tensor covers."""
    if strides is None or any(isinstance(n, Extent) for n in (*sizes, *strides)):
        return product(sizes) * itemsize
    if any(n == 0 for n in sizes):
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))) * itemsize


def lay_out(num_inputs: int, user_inputs: dict[int, int], slots: Sequence[tuple], steps: Sequence[tuple],
            outputs: Sequence[int]) -> Layout:
    """`user_inputs`: plan input -> argument; all others are weights. `outputs`: slots of the results, in order."""
    homes = {k: Home("input", user_inputs[k]) if k in user_inputs else Home("weight", k) for k in range(num_inputs)}
    copies = []
    for number, slot in enumerate(outputs):
        root, offset, size = _root(slot, num_inputs, slots)
        is_whole = hint(offset) == 0 and not isinstance(offset, Extent)
        if root >= num_inputs and root not in homes and is_whole:
            homes[root] = Home("output", number)
        else:
            copies.append(Copy(number, root, offset, size))
    bins = _shared(num_inputs, slots, steps, homes, {c.slot for c in copies})
    return Layout(homes, bins, copies)


def _root(slot: int, num_inputs: int, slots: Sequence[tuple]) -> tuple[int, Any, Any]:
    """The memory that a result is in: its slot, bytes before it, and how many it has."""
    if slot < num_inputs:
        raise AssertionError("results have slots of their own")
    kind, dtype, sizes, strides, source, offset = slots[slot - num_inputs]
    if kind in ("new", "temp"):
        return slot, 0, span(sizes, strides, dtype.itemsize)
    if kind == "arg":
        if source < num_inputs:
            raise NotFreestanding("aot_compile: a result is one of the arguments itself. Return a copy: x.clone().")
        return _root(source, num_inputs, slots)
    return source, offset * dtype.itemsize, product(sizes) * dtype.itemsize


def _shared(num_inputs: int, slots: Sequence[tuple], steps: Sequence[tuple], homes: dict[int, Home],
            kept: set[int]) -> list[list[Any]]:
    """Bins for the slots that have no home yet: one is free again behind the last step that names its slot."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for slot in (*(o[0] if isinstance(o, tuple) else o for o in step.operands), step.error):
            if slot >= num_inputs and slot not in homes:
                first.setdefault(slot, at)
                last[slot] = at
    for slot in kept:
        if slot in first:
            last[slot] = len(steps)
    bins: list[list[Any]] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for at in range(len(steps)):
        free += [b for end, b in busy if end < at]
        busy = [(end, b) for end, b in busy if end >= at]
        for slot in [s for s, begin in first.items() if begin == at]:
            _, dtype, sizes, strides, _, _ = slots[slot - num_inputs]
            size = span(sizes, strides, dtype.itemsize)
            number = _best(free, bins, hint(size))
            if number is None:
                number = len(bins)
                bins.append([])
            else:
                free.remove(number)
            bins[number].append(size)
            busy.append((last[slot], number))
            homes[slot] = Home("bin", number)
    return bins


def _best(free: list[int], bins: list[list[Any]], size: int) -> int | None:
    """The free bin that fits best: the smallest that holds it, else the largest."""
    if not free:
        return None
    room = {b: max(map(hint, bins[b])) for b in free}
    enough = [b for b in free if room[b] >= size]
    return min(enough, key=room.get) if enough else max(free, key=room.get)
