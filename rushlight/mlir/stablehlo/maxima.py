"""Windowed maxima and where they are: the largest of strided slices, one for each element of a window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...definitions.window.axes import POOL, Axis, table_of, unpack
from ...op import find_op
from ..printing import Value
from .table import Call, rule

SLICES = 64      # elements of a window, up to which each is a slice of its own


@rule("_window_max")
def window_max(call: Call, input: Value, axes: Sequence[int], index: int) -> Any:
    windows = unpack(axes)
    sliced = math.prod(table_of(a).taps for a in windows) <= SLICES
    form = by_slices if sliced else in_rows
    if sliced:
        tables = {(d, tap): places(a, tap) for d, a in enumerate(windows) for tap in range(table_of(a).taps)}
    else:
        tables = {d: in_turn(a) for d, a in enumerate(windows)}
    keys, held = list(tables), [call.b.list(numbers) for numbers in tables.values()]

    def expanded(x: Any, made: Sequence[Any]) -> Any:
        return form(x, windows, index, dict(zip(keys, made, strict=True)), tables)

    return call.expand(expanded, [input, held])


def places(axis: Axis, tap: int) -> list[int]:
    """Where each window has its element `tap`; the last one inside, where it has fewer."""
    table, step = table_of(axis), axis.d if axis.rule == POOL else 1
    return [s + min(tap, max(n - 1, 0)) * step for s, n in zip(table.starts, table.counts, strict=True)]


def in_turn(axis: Axis) -> list[int]:
    """All elements of the first window, of the second, and so on."""
    here = [places(axis, tap) for tap in range(table_of(axis).taps)]
    return [line[o] for o in range(axis.out) for line in here]


def by_slices(x: Any, windows: Sequence[Axis], index: int, made: dict, tables: dict) -> tuple[Any, Any]:
    """Element by element of the windows: later ones win if they are larger, or no numbers."""
    dtype = _C.int32 if index == 32 else _C.int64
    best = at = None
    for taps in itertools.product(*[range(table_of(a).taps) for a in windows]):
        seen, where = x, None
        for d, (axis, tap) in enumerate(zip(windows, taps, strict=True)):
            seen = taken(seen, x.ndim - len(windows) + d, tables[d, tap], made[d, tap])
            line = made[d, tap].to(dtype).reshape([-1, *[1] * (len(windows) - 1 - d)])
            where = line if where is None else where * axis.size + line
        where = where.expand(seen.shape)
        if best is None:
            best, at = seen, where
            continue
        wins = (seen > best) | (seen != seen) if x.dtype.is_floating_point else seen > best
        best, at = find_op("where")(wins, seen, best), find_op("where")(wins, where, at)
    return best, at


def taken(x: Any, dim: int, here: Sequence[int], index: Any) -> Any:
    """These places along a dim; slices, where they follow a step but for those at the ends."""
    if not here:
        return x.narrow(dim, 0, 0)
    step, parts, k = next((b - a for a, b in itertools.pairwise(here) if b > a), 1), [], 0
    while k < len(here):
        end = k + 1
        while end < len(here) and here[end] - here[end - 1] == step:
            end += 1
        parts.append(stepped(x, dim, here[k], end - k, step))
        k = end
        if len(parts) > 3:
            return x.index_select(dim, index)
    return find_op("cat")(parts, dim) if len(parts) != 1 else parts[0]


def stepped(x: Any, dim: int, start: int, count: int, step: int) -> Any:
    """Every `step`-th element."""
    chosen = [slice(None)] * x.ndim
    chosen[dim] = slice(start, start + (count - 1) * step + 1, step)
    return x[tuple(chosen)]


def in_rows(x: Any, windows: Sequence[Axis], index: int, made: dict, tables: dict) -> tuple[Any, Any]:
    """All elements of each window side by side; the first of the largest, or the last that is no number."""
    dtype = _C.int32 if index == 32 else _C.int64
    lead, where, count = x.ndim - len(windows), None, len(windows)
    for d, axis in enumerate(windows):
        taps, dim = table_of(axis).taps, lead + d
        x = x.index_select(dim, made[d]).unflatten(dim, (axis.out, taps)).movedim(dim + 1, -1)
        line = made[d].to(dtype).reshape([axis.out, *[1] * (count - 1 - d), *[1] * d, taps])
        where = line if where is None else where.unsqueeze(-1) * axis.size + line
    rows, where = x.flatten(-count), where.expand(x.shape[lead:]).flatten(-count)
    best, first = rows.max(-1)
    is_nan = rows != rows
    last_nan = rows.shape[-1] - 1 - is_nan.to(_C.int32).flip(-1).argmax(-1)
    chosen = find_op("where")(is_nan.any(-1), last_nan, first)
    return best, where.expand(rows.shape).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


@rule("_window_max_backward")
def window_max_backward(call: Call, g: Value, indices: Value, sizes: Sequence[int], checked: bool) -> Any:
    def backward(g: Any, indices: Any) -> Any:
        count = len(sizes)
        lead = g.shape[:-count]
        zeros = find_op("zeros")((*lead, math.prod(sizes)), dtype=g.dtype)
        flat = indices.flatten(-count).to(_C.int64)
        return zeros.scatter_add(-1, flat, g.flatten(-count)).reshape((*lead, *sizes))

    return call.expand(backward, [g, indices])
