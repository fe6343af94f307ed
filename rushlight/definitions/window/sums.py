"""Windowed sums: every output element is a weighted sum over a box of the input, a product of one window per dim.

Enters: [..., spatial dims] and one axis per spatial dim (`axes`). Leaves: averages, areas and interpolations of images;
the gradient is the same op with the axes flipped. Refuses: nothing; callers check sizes.

What is stated depends on the windows alone. Dense rows go in two stages: the rows of a box are added into one row, and
windows of that row are added up. With channels last both are one fold, and small boxes on devices of many threads.
Windows of one element each are no fold at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.loops.expr import Value, and_, bitcast, cast, const, ge, idiv, lt, ne, select
from rushlight.loops.lowered import (
    ZERO,
    At,
    Fold,
    Folding,
    Lowered,
    Memory,
    Number,
    Staged,
    Table,
    Window,
    compute_code,
)
from rushlight.op import Loops, find_op
from rushlight.op.indexed import contiguous_strides
from rushlight.op.layout import channels_last_strides
from rushlight.op.memory import check_memory

from .axes import Axis, Pattern, Regular, floats, integers, pack, pattern_of, regular_part, table_of, unpack
from .layout import dense, in_order, is_channels_last, is_dense

WRITTEN = 8    # taps of a window written out one by one
WRITTEN_BOX = 16     # the same of a box, for channels beside each other
FEW_CHANNELS = 8
ROW_CHANNELS = 16    # channels below which a row of all of them is read by places, one by one
MOST_REPEATED = 32   # taps of windows that repeat, all of them in the code
ENOUGH = 8     # windows that are worth a loop in vectors
# The bits of -0, which is the weight of what is outside of a window: its elements count nothing, even if they are no
# numbers, while those that a window gives a weight of 0 do.
BITS, MISSING = {"f32": "i32", "f64": "i64"}, {"f32": -1 << 31, "f64": -1 << 63}
MOST_BOX = 64  # elements that one thread adds up as soon as threads that share them


class Total(Fold):
    """The sum of the elements, in the order they come."""

    def init(self, s: Any, code: str) -> Any:
        return (const(0, code),)

    def first(self, s: Any, x: Value, index: Value | None) -> Any:
        return (x,)

    def merge(self, s: Any, a: Any, b: Any) -> Any:
        return (a[0] + b[0],)


class WindowSum(Loops):
    """Sums over boxes of the last dims."""

    schema = "_window_sum(Tensor input, int[] axes) -> Tensor"
    function = method = out = False
    batch = "leading"

    def run(self, input: Any, axes: Sequence[int]) -> Any:
        """Inputs in another memory order are copied first; few channels are not worth being lanes."""
        input = dense(input, len(unpack(axes)))
        if has_few_channels(input, unpack(axes)):
            return in_order(find_op("_window_sum")(input.contiguous(), axes), True)
        return find_op("_window_sum")(input, axes)

    def vjp(self, g: Any, axes: Sequence[int]) -> dict[str, Any]:
        return {"input": find_op("_window_sum")(g, pack([axis.flipped() for axis in unpack(axes)]))}

    def is_planned(self, args: tuple) -> bool:
        input, axes = args[0], unpack(args[1])
        return is_dense(input, len(axes)) and (input.is_meta or not has_few_channels(input, axes))

    def lower(self, args: tuple) -> Lowered:
        input, axes = args[0], unpack(args[1])
        lead = tuple(input.shape[: input.ndim - len(axes)])
        shape = (*lead, *[axis.target for axis in axes])
        channels = is_channels_last(input, len(axes))
        layout = channels_last_strides(shape) if channels else None
        if input.is_meta or 0 in shape:
            return Lowered(
                self.spec.name,
                (self.spec.name,),
                shape,
                shape,
                (input.dtype.code,),
                (memory_of(input),),
                None,
                layout=layout,
            )
        check_memory(shape, input.dtype, input.device)   # before tables of these lengths
        if are_picks(axes):
            result = picked(input, axes, shape)
        elif input.device.type != "cpu" and box_of(axes) <= MOST_BOX:      # a thread for each result adds up its box
            result = summed(input, axes, shape, everywhere=False)
        elif channels and are_rows(input, axes):
            result = in_two_stages(input, axes, shape, channels=True)
        elif channels or len(axes) == 1:
            result = summed(input, axes, shape, everywhere=not channels)
        else:
            result = in_two_stages(input, axes, shape)
        return result.but(layout=layout)


def memory_of(input: Any) -> Memory:
    """The tensor that is read."""
    return Memory("input", input.dtype.code, tuple(input.shape), input.stride())


def has_few_channels(input: Any, axes: Sequence[Axis]) -> bool:
    """Whether channels lie last but fill no vector, and there is something to add up that takes them in rows."""
    few = is_channels_last(input, len(axes)) and input.shape[1] < FEW_CHANNELS and not are_picks(axes)
    return few and not are_rows(input, axes) and not are_boxes(input, axes)


def are_rows(input: Any, axes: Sequence[Axis]) -> bool:
    """Whether channels that lie last go in one row with those of all positions: there are few of them, and the steps of
    all windows along it can be written out."""
    last, channels = table_of(axes[-1]), input.shape[1]
    few = input.device.type == "cpu" and channels < ROW_CHANNELS and axes[-1].target * channels >= ENOUGH
    return few and last.weights is not None and last.taps <= WRITTEN


def are_boxes(input: Any, axes: Sequence[Axis]) -> bool:
    """Whether all steps of a box can be written out, for channels that lie last."""
    return (
        input.device.type == "cpu"
        and box_of(axes) <= WRITTEN_BOX
        and all(t.weights is not None and t.taps <= WRITTEN for t in map(table_of, axes))
    )


def box_of(axes: Sequence[Axis]) -> int:
    """Elements of the largest box."""
    return math.prod([max(1, table_of(axis).taps) for axis in axes])


def are_picks(axes: Sequence[Axis]) -> bool:
    """Whether every window is one element, as it is."""
    tables = [table_of(axis) for axis in axes]
    return all(t.weights is None and t.divisors is None and all(n == 1 for n in t.counts) for t in tables)


def number_code(compute: str) -> str:
    """The type of weights and divisors."""
    return compute if compute[0] == "f" else "i64"


class SumRange:
    """One axis of a sum: output range `out` of the Lowered, folded range `tap`; its tables come from read `first` on.

    `everywhere`: the steps of all windows are written out, those outside of them too. Windows that start at regular
    distances have that in the code where they are whole (`regular`). Both where results lie on lanes (`last`), the
    first also where all lanes have one window (`shared`). `beside`: so many elements of a position, its channels, lie
    side by side, and the output range runs through those of all positions.
    """

    def __init__(
        self, axis: Axis, d: int, out: int, tap: int, last: bool, compute: str, beside: int | None = None,
        shared: bool = False,
    ) -> None:
        self.axis, self.d, self.out, self.tap, self.compute, self.beside = axis, d, out, tap, compute, beside
        self.table = table_of(axis)
        self.first = -1
        taps = max(1, self.table.taps)
        regular = regular_part(axis) if last and beside is None else None
        self.regular: Regular | None = None
        if regular is not None and regular.high - regular.low >= ENOUGH and regular.stride <= 8:
            self.regular = regular
        weighted = self.table.weights is not None
        self.pattern = usable_pattern(axis) if last and weighted and beside is None else None
        enough = shared or (last and axis.target * (beside or 1) >= ENOUGH)
        self.everywhere = (
            enough and self.regular is None and self.pattern is None and weighted and taps <= WRITTEN
        )
        self.masked = self.everywhere and min(self.table.counts) < taps     # what is outside may be no number
        self.taps = taps
        self.written = self.everywhere or ((self.regular is not None or self.pattern is not None) and taps <= WRITTEN)

    @property
    def up(self) -> int:
        """How many results one step of the output range has: they are another range, behind it."""
        return 1 if self.pattern is None else self.pattern.up

    def here(self, at: At) -> Value:
        """The output position."""
        return at[self.out] if self.up == 1 else at[self.out] * const(self.up, "i64") + at[self.out + 1]

    @property
    def key(self) -> tuple:
        """What the body depends on."""
        regular = None if self.regular is None else self.regular.stride
        pattern = None if self.pattern is None else self.pattern[2:]
        own = (self.table.weights is not None, self.table.divisors is not None, self.everywhere, self.masked)
        return (*own, regular, pattern, self.taps if self.written else None, self.beside is not None)

    def reads(self, first: int) -> list[Any]:
        """Tables of starts, counts and weights or divisors, and where whole windows are."""
        self.first = first
        target, taps, code = self.axis.target, self.taps, number_code(self.compute)
        starts, weights = self.table.starts, self.table.weights
        if self.everywhere:      # windows move back to stay inside the input
            moved = [min(s, self.axis.source - taps) for s in starts]
            weights = [[-0.0] * (s - m) + [n + 0.0 for n in w] for s, m, w in zip(starts, moved, weights, strict=True)]
            starts = moved
        width = self.beside or 1
        if self.beside is not None:
            starts = [s * width + c for s in starts for c in range(width)]
        result = [self.listed("starts", "i64", starts), self.listed("counts", "i64", self.for_each(self.table.counts))]
        if weights is not None:
            padded = [w + [-0.0] * (taps - len(w)) for w in weights]
            line = [n for t in range(taps) for n in self.for_each([own[t] for own in padded])]
            lines, size = encoded(line, code), target * width
            result.append(Table(f"weights{self.d}", code, (taps, size), (size, 1), values=lines))
        else:
            result.append(self.listed("divisors", code, self.for_each(self.table.divisors or (1,) * target)))
        low, high, padding = 0, 0, 0
        if self.regular is not None:
            low, high, padding = self.regular.low, self.regular.high, self.regular.padding
        elif self.pattern is not None:
            low, high = self.pattern.low, self.pattern.high
        return [
            *result,
            *[
                Number(f"{label}{self.d}", "i64", n)
                for label, n in (("low", low), ("high", high), ("padding", padding), ("taps", self.taps))
            ],
            *([] if self.beside is None else [Number(f"beside{self.d}", "i64", width)]),
        ]

    def for_each(self, numbers: Sequence[Any]) -> Sequence[Any]:
        """A number of every position, once for each element of it."""
        return numbers if self.beside is None else [n for n in numbers for _ in range(self.beside)]

    def listed(self, label: str, code: str, values: Sequence[Any]) -> Table:
        """A table with a number for every output position."""
        return Table(f"{label}{self.d}", code, (len(values),), (1,), values=encoded(values, code))

    def start(self, at: At, sources: Sequence[Any]) -> Value:
        """Where the window starts."""
        if self.regular is not None and self.tap in at.whole:
            return at[self.out] * const(self.regular.stride, "i64") - sources[self.first + 5].value
        if self.repeats(at):
            return at[self.out] * const(self.pattern.down, "i64") + const(self.repeated(at)[0], "i64")
        return sources[self.first][self.here(at)]

    def repeats(self, at: At) -> bool:
        """Whether the window is known to be one of those that repeat."""
        return self.pattern is not None and self.tap in at.whole

    def repeated(self, at: At) -> tuple[int, tuple[float, ...]]:
        """Start and weights of that window."""
        return self.pattern.windows[0 if self.up == 1 else at[self.out + 1].attr]

    def is_past(self, at: At) -> bool:
        """Whether a window that repeats has no such tap."""
        return self.repeats(at) and self.written and at[self.tap].attr >= len(self.repeated(at)[1])

    def place(self, at: At, sources: Sequence[Any]) -> Value:
        """Where a tap is."""
        step = at[self.tap] if self.beside is None else at[self.tap] * sources[self.first + 7].value
        return self.start(at, sources) + step

    def weight(self, at: At, sources: Sequence[Any]) -> Value | None:
        """What a tap counts."""
        if self.table.weights is None:
            return None
        if self.repeats(at):
            return None if self.share(at) is not None else const(self.repeated(at)[1][at[self.tap].attr], self.compute)
        return cast(sources[self.first + 2][at[self.tap], self.here(at)], self.compute)

    def share(self, at: At) -> Value | None:
        """What the whole sum counts, where every tap of a window that repeats counts the same."""
        weights = self.repeated(at)[1] if self.repeats(at) else ()
        return const(weights[0], self.compute) if len(weights) > 1 and len(set(weights)) == 1 else None

    def divisor(self, at: At, sources: Sequence[Any]) -> Value | None:
        """What the window's sum is divided by."""
        return None if self.table.divisors is None else cast(sources[self.first + 2][self.here(at)], self.compute)

    def windows(self) -> list[tuple[int, Window]]:
        """The folded range and its part."""
        if self.everywhere:
            return []

        def bounds(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
            return ZERO, (
                sources[self.first + 6].value if self.tap in at.whole else sources[self.first + 1][self.here(at)]
            )

        def whole(at: At, sources: Sequence[Any]) -> Value:
            return ge(at[self.out], sources[self.first + 3].value) & lt(at[self.out], sources[self.first + 4].value)

        return [(self.tap, Window(bounds, None if self.regular is None and self.pattern is None else whole))]


def usable_pattern(axis: Axis) -> Pattern | None:
    """How the windows of an axis repeat, where writing them out pays."""
    found = pattern_of(axis)
    if (
        found is None
        or found.high - found.low < ENOUGH
        or sum(len(weights) for _, weights in found.windows) > MOST_REPEATED
    ):
        return None
    return found if max(table_of(axis).taps, 1) <= WRITTEN else None


def encoded(values: Sequence[Any], code: str) -> bytes:
    """Numbers of a table as a kernel reads them."""
    return integers([int(v) for v in values]) if code == "i64" else floats(values, code)


def summed(input: Any, axes: Sequence[Axis], shape: Sequence[int], everywhere: bool) -> Lowered:
    """Boxes added up in one fold; `everywhere`: results along the last axis lie on lanes."""
    code, lead = input.dtype.code, input.ndim - len(axes)
    compute, count = compute_code(code), len(axes)
    shared = not everywhere and are_boxes(input, axes)
    ranges = [
        SumRange(axis, d, lead + d, lead + count + d, everywhere and d == count - 1, compute, shared=shared)
        for d, axis in enumerate(axes)
    ]
    ranges[-1].tap += ranges[-1].up > 1
    reads: list[Any] = [memory_of(input)]
    for r in ranges:
        reads += r.reads(len(reads))
    return fold_of(
        "_window_sum",
        ranges,
        shape,
        lead,
        code,
        compute,
        reads,
        lambda at, sources: (*at[:lead], *[r.place(at, sources) for r in ranges]),
        ranges,
    )


def fold_of(
    name: str, ranges: Sequence[SumRange], shape: Sequence[int], lead: int, code: str, compute: str,
    reads: Sequence[Any], places: Any, divided: Sequence[SumRange],
) -> Lowered:
    """The fold of weighted elements at `places` of the first read; sums are divided as all of `divided` say."""

    def body(at: At, sources: Sequence[Any]) -> tuple[Value] | None:
        if any(r.is_past(at) for r in ranges):
            return None
        x, scale, counts = cast(sources[0][places(at, sources)], compute), None, None
        for r in ranges:
            own = r.weight(at, sources)
            scale = scale if own is None else own if scale is None else scale * own
            if r.masked:
                here = ne(bitcast(own, BITS[compute]), const(MISSING[compute], BITS[compute]))
                counts = here if counts is None else and_(counts, here)
        x = x if scale is None else x * scale
        return (x if counts is None else select(counts, x, const(0, compute)),)

    def result(at: At, sources: Sequence[Any], accs: Sequence[Value]) -> tuple[Value]:
        divisor = None
        shares = [share for r in ranges if (share := r.share(at)) is not None]
        accs = [accs[0] * shares[0]] if shares else accs
        for r in reversed(divided):
            own = r.divisor(at, sources)
            divisor = divisor if own is None else own if divisor is None else divisor * own
        if divisor is None:
            return (accs[0],)
        return (idiv(accs[0], divisor) if compute[0] != "f" else accs[0] / divisor,)

    kept, written = list(shape), [r.tap for r in ranges if r.written]
    if ranges[-1].up > 1:      # steps, and the results of each
        kept[-1:] = [shape[-1] // ranges[-1].up, ranges[-1].up]
        written.append(len(kept) - 1)
    taps = frozenset([r.tap for r in ranges])
    folding = Folding(
        Total(),
        compute,
        taps,
        windows=tuple([w for r in ranges for w in r.windows()]),
        written=frozenset(written),
        result=result,
    )
    key = (name, len(shape), tuple([r.key for r in ranges]), tuple([r.key for r in divided]))
    return Lowered(
        name, key, (*kept, *[r.taps for r in ranges]), tuple(shape), (code,), tuple(reads), body, aligned=False,
        folding=folding, through=frozenset(range(lead)),
    )


def in_two_stages(input: Any, axes: Sequence[Axis], shape: Sequence[int], channels: bool = False) -> Lowered:
    """The rows of a box first, then windows of the row that is their sum. With `channels` last a row holds those of
    all its positions."""
    code, result_shape = input.dtype.code, tuple(shape)
    memory, lead, beside = memory_of(input), input.ndim - len(axes), None
    if channels:
        n, beside, *space = input.shape
        sizes = (n, *space[:-1], space[-1] * beside)
        memory, lead = Memory("input", code, sizes, contiguous_strides(sizes)), 1
        shape = (n, *shape[2:-1], shape[-1] * beside)
    compute, count, width = compute_code(code), len(axes), memory.sizes[-1]
    row_shape = (*shape[:-1], width)
    outer = [SumRange(axis, d, lead + d, len(row_shape) + d, False, compute) for d, axis in enumerate(axes[:-1])]
    reads: list[Any] = [memory]
    for r in outer:
        reads += r.reads(len(reads))
    column = len(row_shape) - 1
    inside = fold_of(
        "_window_rows",
        outer,
        row_shape,
        lead,
        compute,
        compute,
        reads,
        lambda at, sources: (*at[:lead], *[r.place(at, sources) for r in outer], at[column]),
        (),
    )
    last = SumRange(axes[-1], count - 1, lead + count - 1, len(shape), True, compute, beside)
    last.tap += last.up > 1
    # The divisors of the outer windows are asked for once more, with those of the last: sums are divided once.
    again = [SumRange(axis, d, lead + d, -1, False, compute) for d, axis in enumerate(axes[:-1])]
    stage = Staged("rows", compute, row_shape, row_shape, producer=inside)
    reads = [stage, *last.reads(1)]
    for r in again:
        if r.table.divisors is not None:
            r.first = len(reads) - 2     # where `divisor` looks
            reads.append(r.listed("shares", number_code(compute), r.table.divisors))
    found = fold_of(
        "_window_sum",
        [last],
        shape,
        lead,
        code,
        compute,
        reads,
        lambda at, sources: (*at[: len(shape) - 1], last.place(at, sources)),
        [*again, last],
    )
    return found.but(shape=result_shape)


def picked(input: Any, axes: Sequence[Axis], shape: Sequence[int]) -> Lowered:
    """Elements from where the tables say."""
    code, lead = input.dtype.code, input.ndim - len(axes)
    tables = [
        Table(f"starts{d}", "i64", (axis.target,), (1,), values=integers(table_of(axis).starts))
        for d, axis in enumerate(axes)
    ]

    def body(at: At, sources: Sequence[Any]) -> tuple[Value]:
        return (sources[0][(*at[:lead], *[table[at[lead + d]] for d, table in enumerate(sources[1:])])],)

    return Lowered(
        "_window_pick",
        ("_window_pick", lead),
        tuple(shape),
        tuple(shape),
        (code,),
        (memory_of(input), *tables),
        body,
        aligned=False,
    )
