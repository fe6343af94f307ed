"""Padding: constants, reflections, repeated edges and wrapping around.

Enters: a tensor and amounts for its last dims, innermost first, two per dim; negative amounts cut. Leaves: the padded
tensor. Constant padding is a fill and a copy; the others read through an index table per dim, and their gradient adds
through its transpose. Refuses: amounts a mode cannot provide, values with modes that take none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.assertions import sym_float
from rushlight.loops.expr import Value, cast, const, ge, irem, le, lt, max_, min_, select
from rushlight.loops.lowered import (
    ONE,
    ZERO,
    At,
    Folding,
    Lowered,
    Memory,
    Number,
    Piece,
    Staged,
    Table,
    Window,
    compute_code,
    number_value,
)
from rushlight.op import Composite, Loops, find_op
from rushlight.op.layout import channels_last_strides, prefers_channels_last
from rushlight.op.numbers import fitting

from ..window.axes import integers
from ..window.layout import dense, is_channels_last, is_dense
from ..window.sums import Total

REFLECT, REPLICATE, CIRCULAR = "reflect", "replicate", "circular"


def amounts(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """(before, after) per dim, outermost first."""
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


class ConstantPad(Loops):
    """`value` around the last dims; negative amounts cut."""

    schema = "constant_pad_nd(Tensor input, int[] pad, Scalar value=0) -> Tensor"
    method = False
    batch = "leading"

    def settled(self, input: Any, pad: Sequence[int]) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
        """What is added before and after every dim, and the shape; raises for what the op refuses."""
        if len(pad) % 2 or len(pad) > 2 * input.ndim:
            raise RuntimeError(
                f"constant_pad_nd: pad has two numbers per dimension: expected an even length up to {2 * input.ndim},"
                f" got {len(pad)}"
            )
        around = amounts(pad, input.ndim)
        shape = tuple(n + a + b for n, (a, b) in zip(input.shape, around, strict=True))
        if any(n < 0 for n in shape):
            raise RuntimeError(
                f"constant_pad_nd: padding {list(pad)} makes an input of size {list(input.shape)} one of negative size,"
                f" {list(shape)}"
            )
        return around, shape

    def lower(self, args):
        input, pad, value = args
        around, shape = self.settled(input, pad)
        value = fitting(self.name, value, input.dtype)
        empty = any(n == 0 for n in input.shape)
        # What is computed of sizes may be 0 for some of them: it is not asked, the answer would hold for these alone.
        is_fixed = all(type(n) is int for own in around for n in own)
        changed = [d for d, own in enumerate(around) if not all(type(n) is int and n == 0 for n in own)]
        code = input.dtype.code
        given = [Number(f"before{d}", "i64", around[d][0]) for d in changed]
        reads = (
            Memory("input", code, tuple(input.shape), input.stride()),
            Number("value", number_value("value", value).dtype, value),
            *given,
        )

        def body(at: At, sources: Any) -> tuple:
            if empty:
                return (cast(sources[1].value, code),)
            place, inside = list(at), const(True, "b1")
            for d, before in zip(changed, sources[2:], strict=True):
                own, last = at[d] - before.value, sources[0].shape[d] - ONE
                inside = inside & ge(own, ZERO) & le(own, last)
                place[d] = max_(min_(own, last), ZERO)       # read even where it is not used
            return (select(inside, sources[0][tuple(place)], cast(sources[1].value, code)),)

        channels = input.ndim in (4, 5) and input._is_channels_last() and prefers_channels_last(input)
        return Lowered(
            self.spec.name, (self.spec.name, tuple(changed), empty), shape, shape, (code,), reads, body, aligned=False,
            through=frozenset(range(input.ndim)).difference(changed),
            pieces=(shown(input, around),) if is_fixed else None,
            background=1 if is_fixed and any(a > 0 or b > 0 for a, b in around) else None,
            layout=channels_last_strides(shape) if channels else None,
        )

    def vjp(self, g, pad):
        return {"input": find_op("constant_pad_nd")(g, [-n for n in pad], 0)}


def shown(input: Any, around: Sequence[tuple[int, int]]) -> Piece:
    """The part of the input that is seen inside its padding."""
    sizes, skipped = [], 0
    for d, (a, b) in enumerate(around):
        low, high = max(0, -a), input.shape[d] - max(0, -b)
        skipped += low * input.stride(d)
        sizes.append(max(0, high - low))
    return Piece(0, tuple([max(a, 0) for a, _ in around]), tuple(sizes), tuple(input.stride()), skipped)


class Pad(Composite):
    """Padding by `mode` around the last dims."""

    schema = "pad(Tensor input, int[] pad, str mode='constant', float? value=None) -> Tensor"
    replays = True
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, pad, mode, value):
        pad = list(pad)
        if len(pad) % 2:
            raise RuntimeError(f"pad: Padding length must be divisible by 2, got {len(pad)}")
        if len(pad) > 2 * input.ndim:
            raise RuntimeError(
                f"pad: padding has two numbers per dimension: expected a length up to {2 * input.ndim}, got {len(pad)}"
            )
        mode = mode.strip("'")
        if mode == "constant":
            return find_op("constant_pad_nd")(input, pad, 0 if value is None else sym_float(value))
        if value:
            raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
        if mode not in (REFLECT, REPLICATE, CIRCULAR):
            raise NotImplementedError(f"pad: Unrecognised padding mode {mode}")
        count = len(pad) // 2
        if count > 3 or count == 0 or input.ndim not in (count + 1, count + 2):
            raise NotImplementedError(
                f"pad: Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, got {len(pad)}"
                f" amounts for {input.ndim} dims"
            )
        check_amounts(input, pad, mode)
        if mode == CIRCULAR and not input._is_contiguous():
            input = input.contiguous()   # this mode does not keep channels last
        return find_op("_pad_by_index")(input, pad, mode)


def check_amounts(input: Any, pad: Sequence[int], mode: str) -> None:
    """Raise for amounts that the input cannot provide."""
    count = len(pad) // 2
    around = amounts(pad, input.ndim)[input.ndim - count :]
    space = input.shape[input.ndim - count :]
    first_required = 1 if input.ndim == count + 2 else 0
    if mode != CIRCULAR and 0 in input.shape[first_required:]:
        raise RuntimeError(
            f"pad: expected an input with {count + 1} dimensions, or {count + 2} with a batch (which alone may be"
            f" empty), got shape {list(input.shape)}"
        )
    for d, (n, (a, b)) in enumerate(zip(space, around, strict=True)):
        if mode == REFLECT and (a >= n or b >= n):
            raise RuntimeError(
                f"pad: expected padding smaller than the dimension it reflects, got ({a}, {b}) at dimension {d} of an"
                f" input of shape {list(input.shape)}"
            )
        if mode == CIRCULAR and (a > n or b > n):
            raise RuntimeError(
                f"pad: circular padding wraps around once: expected padding up to size {n}, got ({a}, {b})"
            )
        if n + a + b < (0 if mode == CIRCULAR else 1):
            raise RuntimeError(
                f"pad: input size {n} at dimension {d} is too small for padding ({a}, {b}): the calculated output size"
                f" is {n + a + b}"
            )


def sources(mode: str, size: int, before: int, after: int) -> list[int]:
    """The input position of every output position of a dim."""
    places = range(-before, size + after)
    if mode == REPLICATE:
        return [min(max(at, 0), size - 1) for at in places]
    if mode == CIRCULAR:   # what was cut off does not come back on the other side
        first, kept = max(0, -before), size - max(0, -before) - max(0, -after)
        # nothing kept: PyTorch shows memory nobody wrote
        return [min(first + (at - first) % max(1, kept), size - 1) for at in places]
    return [abs(at) if at < size else abs(2 * (size - 1) - at) for at in places]


class PadByIndex(Loops):
    """Every output position shows the input position its mode says."""

    schema = "_pad_by_index(Tensor input, int[] pad, str mode) -> Tensor"
    function = method = out = False
    batch = "leading"

    def lower(self, args):
        input, pad, mode = args
        around = amounts(pad, input.ndim)
        shape = tuple([n + a + b for n, (a, b) in zip(input.shape, around, strict=True)])
        changed = [d for d, (a, b) in enumerate(around) if (a, b) != (0, 0)]
        cut = tuple([min(around[d]) < 0 for d in changed])
        given = [
            Number(f"{label}{d}", "i64", n)
            for d in changed
            for label, n in zip(("before", "after"), around[d], strict=True)
        ]
        reads = (Memory("input", input.dtype.code, tuple(input.shape), input.stride()), *given)

        def body(at: At, sources: Any) -> tuple:
            place = list(at)
            for k, d in enumerate(changed):
                before, after = (s.value for s in sources[1 + 2 * k : 3 + 2 * k])
                place[d] = shown_place(mode, at[d] - before, sources[0].shape[d], before, after, cut[k])
            return (sources[0][tuple(place)],)

        channels = len(pad) > 2 and input.ndim == len(pad) // 2 + 2 and prefers_channels_last(input)
        return Lowered(
            self.spec.name, (self.spec.name, mode, tuple(changed), cut), shape, shape, (input.dtype.code,), reads, body,
            aligned=False, through=frozenset(range(input.ndim)).difference(changed),
            layout=channels_last_strides(shape) if channels else None,
        )

    def vjp(self, g, input: Any, pad, mode):
        space = input.shape[input.ndim - len(pad) // 2 :]
        return {"input": find_op("_pad_by_index_backward")(g, pad, mode, space)}


def shown_place(mode: str, at: Value, size: Value, before: Value, after: Value, cut: bool) -> Value:
    """The input position that position `at`, counted from the input's first, shows: `sources`, for one of them."""
    last = size - ONE
    if mode == REPLICATE:
        return max_(min_(at, last), ZERO)
    if mode == REFLECT:
        return select(lt(at, ZERO), -at, select(le(at, last), at, 2 * last - at))
    if not cut:          # wraps around once
        return select(lt(at, ZERO), at + size, select(le(at, last), at, at - size))
    first = max_(-before, ZERO)      # what was cut off does not come back on the other side
    kept = max_(size - first - max_(-after, ZERO), ONE)
    own = at - first
    return min_(first + select(ge(own, ZERO), irem(own, kept), irem(kept - ONE + irem(own + ONE, kept), kept)), last)


class ShownRange:
    """One dim of the gradient: position i of output range `out` gathers from the places that show it,
    listed from read `first` on.

    Between `low` and `high` that is one place, `before` ahead.
    """

    def __init__(
        self, mode: str, size: int, around: tuple[int, int], out: int, tap: int, first: int, last: bool
    ) -> None:
        self.size, self.out, self.tap, self.first = size, out, tap, first
        self.seen: list[list[int]] = [[] for _ in range(size)]
        for o, i in enumerate(sources(mode, size, *around)):
            self.seen[i].append(o)
        self.taps, self.before = max(1, *map(len, self.seen)), around[0]
        self.low, self.high = single_stretch(mode, size, *around) if last else (0, 0)
        self.last = last

    def reads(self) -> list[Any]:
        """Counts, places, and the stretch with one place each."""
        places = [own[t] if t < len(own) else 0 for t in range(self.taps) for own in self.seen]
        tables = [
            Table(f"counts{self.out}", "i64", (self.size,), (1,), values=integers([len(own) for own in self.seen])),
            Table(f"places{self.out}", "i64", (self.taps, self.size), (self.size, 1), values=integers(places)),
        ]
        return [
            *tables,
            *[Number(f"{label}{self.out}", "i64", getattr(self, label)) for label in ("low", "high", "before")],
        ]

    def place(self, at: At, given: Any) -> Value:
        """Where a tap is."""
        return (
            at[self.out] + given[self.first + 4].value
            if self.tap in at.whole
            else given[self.first + 1][at[self.tap], at[self.out]]
        )

    def window(self) -> tuple[int, Window]:
        def bounds(at: At, given: Any) -> tuple[Value, Value]:
            return ZERO, ONE if self.tap in at.whole else given[self.first][at[self.out]]

        def single(at: At, given: Any) -> Value:
            return ge(at[self.out], given[self.first + 2].value) & lt(at[self.out], given[self.first + 3].value)

        return self.tap, Window(bounds, single if self.last else None)


class PadByIndexBackward(Loops):
    """Every input position gets the sum over the output positions that show it: of rows first,
    then of places in them."""

    schema = "_pad_by_index_backward(Tensor g, int[] pad, str mode, int[] sizes) -> Tensor"
    function = method = out = False
    batch = "leading"

    def run(self, g: Any, pad: Sequence[int], mode: str, sizes: Sequence[int]) -> Any:
        """Gradients in another memory order are copied first."""
        return find_op("_pad_by_index_backward")(dense(g, len(pad) // 2), pad, mode, sizes)

    def is_planned(self, args: tuple) -> bool:
        return is_dense(args[0], len(args[1]) // 2)

    def lower(self, args):
        g, pad, mode, sizes = args
        count, code = len(sizes), g.dtype.code
        lead, compute, around = g.ndim - count, compute_code(code), amounts(pad, count)
        shape = (*g.shape[:lead], *sizes)
        memory = Memory("g", code, tuple(g.shape), g.stride())
        channels = is_channels_last(g, count)
        layout = channels_last_strides(shape) if channels else None
        if g.is_meta or 0 in shape:
            return Lowered(self.spec.name, (self.spec.name,), shape, shape, (code,), (memory,), None, layout=layout)

        def added(
            name: str, ranges: Sequence[ShownRange], space: Sequence[int], source: Any, places: Any, out: str
        ) -> Lowered:
            def body(at: At, given: Any) -> tuple[Value]:
                return (cast(given[0][places(at, given)], compute),)

            taps = frozenset([r.tap for r in ranges])
            folding = Folding(Total(), compute, taps, windows=tuple([r.window() for r in ranges]))
            reads = (source, *[read for r in ranges for read in r.reads()])
            key = (name, len(space), lead, tuple([r.last for r in ranges]))
            through = frozenset(range(lead))
            return Lowered(
                name,
                key,
                (*space, *[r.taps for r in ranges]),
                tuple(space),
                (out,),
                reads,
                body,
                aligned=False,
                folding=folding,
                through=through,
            )

        def shown(dims: Sequence[int], rank: int, last: bool) -> list[ShownRange]:
            return [
                ShownRange(mode, sizes[d], around[d], lead + d, rank + k, 1 + 5 * k, last and d == count - 1)
                for k, d in enumerate(dims)
            ]

        if channels or count == 1:
            ranges = shown(range(count), len(shape), not channels)
            result = added(
                self.spec.name,
                ranges,
                shape,
                memory,
                lambda at, given: (*at[:lead], *[r.place(at, given) for r in ranges]),
                code,
            )
            return result.but(layout=layout)
        row_shape = (*shape[:-1], g.shape[-1])
        outer, (last,), column = (
            shown(range(count - 1), len(shape), False),
            shown([count - 1], len(shape), True),
            len(shape) - 1,
        )
        rows_ = added(
            "pad_rows",
            outer,
            row_shape,
            memory,
            lambda at, given: (*at[:lead], *[r.place(at, given) for r in outer], at[column]),
            compute,
        )
        stage = Staged("rows", compute, row_shape, row_shape, producer=rows_)
        return added(self.spec.name, [last], shape, stage, lambda at, given: (last.place(at, given),), code)

    def vjp(self, gg, pad, mode):
        return {"g": find_op("_pad_by_index")(gg, pad, mode)}


def single_stretch(mode: str, size: int, before: int, after: int) -> tuple[int, int]:
    """Input positions [low, high) that exactly one output position shows, the one in the middle of the output."""
    counts = [0] * size
    for i in sources(mode, size, before, after):
        counts[i] += 1
    inside = [i for i in range(size) if counts[i] == 1 and 0 <= i + before < size + before + after]
    best = (0, 0)
    start = 0
    for k, i in enumerate(inside):
        if k and inside[k - 1] != i - 1:
            start = k
        if k - start + 1 > best[1] - best[0]:
            best = (inside[start], i + 1)
    return best
