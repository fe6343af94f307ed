"""Windowed maxima: the largest element of a box of the input per output element, and where it is.

Enters: [..., spatial dims], one axis per spatial dim (`axes`), and the type of positions. Leaves: the maxima and their
positions in the flattened spatial dims: the first of equals, the last NaN if there is one. The gradient goes to those
positions, plane by plane, planes in parallel. Refuses: positions outside the plane, where they come from a caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.definitions.reduction.extremes import lowest
from rushlight.loops.expr import Value, and_, cast, const, eq, gt, lt, ne, or_, select
from rushlight.loops.lowered import (
    At,
    Fold,
    Folding,
    Lowered,
    Memory,
    Scatter,
    Staged,
    compute_code,
    decode_error,
)
from rushlight.op import Loops, find_op
from rushlight.op.indexed import contiguous_strides
from rushlight.op.layout import channels_last_strides
from rushlight.op.memory import check_memory
from rushlight.op.reduction import product

from .axes import unpack
from .layout import ZERO, dense, in_order, is_channels_last, is_dense
from .ranges import WindowRange, window_ranges

INDEX_CODE = {32: "i32", 64: "i64"}
MANY = 9      # elements of a box past which its columns are worth a pass of their own


class LargestAt(Fold):
    """The largest element and where it is: the first of equals, the last NaN. Elements come in order."""

    uses_index = True

    def step(self, s: Any, acc: Any, x: Value, index: Value | None) -> Any:
        best, at = acc
        wins = or_(gt(x, best), ne(x, x)) if x.dtype[0] == "f" else gt(x, best)
        return select(wins, x, best), select(wins, index, at)


class LargestOfColumns(LargestAt):
    """The same where columns come in order and rows do not: of equals the one with the lower position was first,
    of NaN the higher was last."""

    def step(self, s: Any, acc: Any, x: Value, index: Value | None) -> Any:
        best, at = acc
        wins = or_(gt(x, best), and_(eq(x, best), lt(index, at)))
        if x.dtype[0] == "f":
            wins = or_(wins, and_(ne(x, x), or_(eq(best, best), gt(index, at))))
        return select(wins, x, best), select(wins, index, at)


class WindowMax(Loops):
    """Maxima over boxes of the last dims, and their positions (of `index` bits)."""

    schema = "_window_max(Tensor input, int[] axes, int index) -> (Tensor, Tensor)"
    function = method = out = False
    batch = "leading"
    single = False

    def run(self, input: Any, axes: Sequence[int], index: int) -> Any:
        """Inputs in another memory order are copied first."""
        return find_op("_window_max")(dense(input, len(unpack(axes))), axes, index)

    saved_results = (1,)

    def vjp(self, g: Any, axes: Sequence[int], result: Any) -> dict[str, Any]:
        sizes = [axis.size for axis in unpack(axes)]
        return {"input": None if g[0] is None else find_op("_window_max_backward")(g[0], result[1], sizes, False)}

    def is_planned(self, args: tuple) -> bool:
        return is_dense(args[0], len(unpack(args[1])))

    def lower(self, args: tuple) -> Lowered:
        input, axes, index = args[0], unpack(args[1]), INDEX_CODE[args[2]]
        lead = input.ndim - len(axes)
        # before tables of that size
        check_memory((*input.shape[:lead], *[axis.out for axis in axes]), input.dtype, input.device)
        windows = window_ranges(axes, lead, 1)
        reads = (
            Memory("input", input.dtype.code, tuple(input.shape), input.stride()),
            *[n for w in windows for n in w.numbers()],
        )
        irregular = windows[-1].adaptive or not windows[-1].written
        if (
            irregular
            and len(axes) > 1
            and not is_channels_last(input, len(axes))
            and product(w.taps for w in windows) >= MANY
            and input.shape[-1] >= 8
        ):
            return in_two_stages(self.spec.name, input, axes, index)
        return window_maxima(self.spec.name, input, windows, reads, index)


def in_two_stages(name: str, input: Any, axes: Sequence[Any], index: str) -> Lowered:
    """The best of every column of a box's rows first, then the best column of each window."""
    code, lead, width = input.dtype.code, input.ndim - len(axes), input.shape[-1]
    compute = compute_code(code)
    row_shape = (*input.shape[:lead], *[axis.out for axis in axes[:-1]], width)
    shape, column = (*row_shape[:-1], axes[-1].out), len(row_shape) - 1
    outer = [WindowRange(axis, d, lead + d, len(row_shape) + d, 1 + 6 * d, False) for d, axis in enumerate(axes[:-1])]

    def rows_before(at: At, sources: Sequence[Any], steps: Sequence[Value]) -> Value:
        flat = ZERO
        for w, n, step in zip(outer, sources[0].shape[lead:], steps, strict=False):
            flat = flat * n + w.start(at, sources) + step
        return cast(flat * sources[0].shape[-1], index) + cast(at[column], index)

    def body(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        steps = [at[w.tap] * w.step(sources) for w in outer]
        places = [w.start(at, sources) + step for w, step in zip(outer, steps, strict=True)]
        return cast(sources[0][(*at[:lead], *places, at[column])], compute), rows_before(at, sources, steps)

    def start(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        steps = [w.bounds(at, sources)[0] * w.step(sources) for w in outer]
        return const(lowest(compute), compute), rows_before(at, sources, steps)

    taps, windows = frozenset([w.tap for w in outer]), tuple([w.window() for w in outer])
    folding = Folding(
        LargestAt(), compute, taps, windows=windows, start=start, result=lambda at, sources, accs: tuple(accs)
    )
    reads = (Memory("input", code, tuple(input.shape), input.stride()), *[n for w in outer for n in w.numbers()])
    key = ("columns", index, lead, tuple([w.key for w in outer]))
    ranges = (*row_shape, *[w.taps for w in outer])
    through = frozenset(range(lead))
    inside = Lowered(
        "columns",
        key,
        ranges,
        row_shape,
        (compute, index),
        reads,
        body,
        aligned=False,
        folding=folding,
        through=through,
    )
    last = WindowRange(axes[-1], len(axes) - 1, column, len(shape), 1, True)

    def best(at: At, sources: Sequence[Any]) -> tuple[Value, ...]:
        return sources[0].all(last.place(at, sources))

    def first(at: At, sources: Sequence[Any]) -> tuple[Value, ...]:
        """The first column, its best element not looked at yet."""
        inside = last.start(at, sources) + last.bounds(at, sources)[0] * last.step(sources)
        return const(lowest(compute), compute), sources[0].all(inside)[1]

    folding = Folding(
        LargestOfColumns(), compute, frozenset((last.tap,)), windows=(last.window(),),
        written=frozenset([last.tap] if last.written else ()), start=first,
        result=lambda at, sources, accs: tuple(accs),
    )
    stage = Staged("rows", compute, row_shape, row_shape, producer=inside)
    return Lowered(
        name, (name, "columns", index, lead, last.key), (*shape, last.taps), shape, (code, index),
        (stage, *last.numbers()), best, aligned=False, folding=folding, through=through,
    )


def window_maxima(name: str, input: Any, windows: Sequence[WindowRange], reads: Sequence[Any], index: str) -> Lowered:
    """The maxima of windows of the first read, and their positions in the flattened last dims."""
    code, lead = input.dtype.code, input.ndim - len(windows)
    compute = compute_code(code)
    shape = (*input.shape[:lead], *[w.axis.out for w in windows])

    def flat(starts: Sequence[Value], steps: Sequence[Value], sources: Sequence[Any]) -> Value:
        """A position in the flattened dims; what the last range moves is added in the index's own type,
        being on lanes."""
        at = ZERO
        for n, start, step in zip(sources[0].shape[lead:], starts[:-1], steps[:-1], strict=False):
            at = at * n + start + step
        return cast(at * sources[0].shape[-1], index) + (cast(starts[-1], index) + cast(steps[-1], index))

    def body(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        starts, steps = [w.start(at, sources) for w in windows], [at[w.tap] * w.step(sources) for w in windows]
        x = sources[0][(*at[:lead], *[a + b for a, b in zip(starts, steps, strict=True)])]
        return cast(x, compute), flat(starts, steps, sources)

    def start(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        starts = [w.start(at, sources) for w in windows]
        steps = [w.bounds(at, sources)[0] * w.step(sources) for w in windows]
        return const(lowest(compute), compute), flat(starts, steps, sources)

    taps = frozenset([w.tap for w in windows])
    folding = Folding(
        LargestAt(), compute, taps, windows=tuple([w.window() for w in windows]),
        written=frozenset([w.tap for w in windows if w.written]), start=start,
        result=lambda at, sources, accs: tuple(accs),
    )
    channels = is_channels_last(input, len(windows))
    return Lowered(
        name, (name, index, lead, tuple([w.key for w in windows])), (*shape, *[w.taps for w in windows]), shape,
        (code, index), tuple(reads), body, aligned=False, folding=folding, through=frozenset(range(lead)),
        layout=channels_last_strides(shape) if channels else None,
    )


# --- gradient ---------------------------------------------------------------------------------------------------------


class WindowMaxBackward(Loops):
    """Zeros of the last dims `sizes`, with each element of `g` added at its position;
    positions are tested if `checked`."""

    schema = "_window_max_backward(Tensor g, Tensor indices, int[] sizes, bool checked) -> Tensor"
    function = method = out = False
    batch = "leading"

    def run(self, g: Any, indices: Any, sizes: Sequence[int], checked: bool) -> Any:
        """Arguments in other memory orders are copied first."""
        channels = is_channels_last(indices, len(sizes))
        return find_op("_window_max_backward")(in_order(g, channels), in_order(indices, channels), sizes, checked)

    def vjp(self, gg: Any, indices: Any, sizes: Sequence[int]) -> dict[str, Any]:
        flat = indices.flatten(-len(sizes))
        return {"g": gg.flatten(-len(sizes)).gather(-1, flat).view(indices.shape)}

    def is_planned(self, args: tuple) -> bool:
        g, indices, sizes, _ = args
        count = len(sizes)
        in_one_order = is_channels_last(g, count) == is_channels_last(indices, count)
        return in_one_order and is_dense(g, count) and is_dense(indices, count)

    def lower(self, args: tuple) -> Lowered:
        """A plane for every position of the dims before the last; with channels last, these are beside each other."""
        g, indices, sizes, checked = args
        code, index, lead = g.dtype.code, indices.dtype.code, g.ndim - len(sizes)
        shape, length, plane = (*g.shape[:lead], *sizes), product(g.shape[lead:]), product(sizes)
        channels = is_channels_last(indices, len(sizes))
        planes = shape[:2] if channels else (product(shape[:lead]),)
        space, target = (
            ((planes[0], n, planes[1]) if channels else (planes[0], n)) for n in (length, plane)
        )
        memories = [Memory(name, t, space, contiguous_strides(space)) for name, t in (("g", code), ("indices", index))]

        def writes(at: At, out: Any, sources: Sequence[Any]) -> tuple:
            where = cast(sources[1][tuple(at)], "i64")
            if checked:
                where = at.bounded(where, out.shape[1], negative=False)
            return at.replace(1, where), sources[0][tuple(at)]

        scatter = Scatter(
            Memory("out", code, target, contiguous_strides(target)), frozenset((1,)), writes,
            lambda old, new, sources: old + new, True, frozenset(range(len(space))) - {1},
        )
        return Lowered(
            self.spec.name, (self.spec.name, checked, channels), space, shape, (code,), tuple(memories), None,
            aligned=False, scatter=scatter, on_error=bad_position,
            layout=channels_last_strides(shape) if channels else None,
        )


def bad_position(code: int) -> None:
    """The error of a position outside its plane."""
    raise RuntimeError(f"max pooling: found an invalid max index {decode_error(code)[0]}: it lies outside the plane")
