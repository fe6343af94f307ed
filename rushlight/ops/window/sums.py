"""Windowed sums: every output element is a weighted sum over a box of the input, a product of one window per dim.

Enters: [..., spatial dims] and one axis per spatial dim (`axes`). Leaves: averages, areas and interpolations of images; the
gradient is the same op with the axes flipped. Refuses: nothing; callers check sizes.

Two loop forms. Dense rows go in two stages: the rows of a box are added into one scratch row, in vectors, and windows of
that row are added up. With channels last, channels are the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rushlight import _C
from rushlight.loops.expr import Value, cast, const, idiv, load, ne, select, var
from rushlight.loops.nest import Assign, For, Local, Nest, Statement, Store, operands, rows
from rushlight.op import find_op
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.memory import check_memory
from rushlight.op.pointwise import compile_for, compute_code
from rushlight.op.reduction import GRAIN, as_step, product

from .axes import (
    Axis,
    Constants,
    Table,
    floats,
    integers,
    pack,
    pattern_of,
    phased_part,
    regular_part,
    table_of,
    unpack,
)
from .layout import ZERO, channels_last_strides, dense, in_order, is_channels_last, is_dense, nested, unravel

UNROLLED = 8    # taps of a window written out one by one
MOST_PHASES = 32
FEW_CHANNELS = 8


class Form(NamedTuple):
    """What the code of a kernel depends on, apart from dtypes."""

    channels: bool
    weighted: tuple[bool, ...]      # per axis
    divided: bool
    stride: int                     # of whole windows along the last dim; 0: windows come from the table
    taps: int                       # of windows along the last dim where they are written out; 0: a loop
    masked: bool                    # written-out windows may be shorter than `taps`
    picks: bool = False             # every window is one element: nothing is added
    phases: tuple[tuple[int, int], ...] = ()   # the regular windows of a flipped pool along the last dim
    pattern: tuple[int, int, tuple] = (0, 0, ())   # factors and windows of a last dim that repeats itself


class WindowSum(OpDefinition):
    """Sums over boxes of the last dims."""

    schema = "_window_sum(Tensor input, int[] axes) -> Tensor"
    function = method = out = False
    batch = "leading"
    kind = KIND_PLANNED

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, input: Any, axes: Sequence[int]) -> Any:
        """Inputs in another memory order are copied first; few channels are not worth being lanes."""
        input = dense(input, len(unpack(axes)))
        if has_few_channels(input, unpack(axes)):
            return in_order(self.run(input.contiguous(), axes), True)
        return self.plan((input, axes))(input)

    def vjp(self, g: Any, axes: Sequence[int]) -> dict[str, Any]:
        return {"input": find_op("_window_sum")(g, pack([axis.flipped() for axis in unpack(axes)]))}

    def plan(self, args: tuple) -> Any:
        input, axes = args[0], unpack(args[1])
        if not is_dense(input, len(axes)) or (not input.is_meta and has_few_channels(input, axes)):
            return None
        space = tuple(axis.target for axis in axes)
        lead = tuple(input.shape[: input.ndim - len(axes)])
        shape, device = (*lead, *space), input.device
        channels = is_channels_last(input, len(axes))
        strides = channels_last_strides(shape) if channels else None
        slots: list[tuple] = [("new", input.dtype, shape, strides, 0, 0)]
        if device.type == "meta" or 0 in shape:
            return _C.Plan(1, device, slots, [])
        check_memory(shape, input.dtype, device)   # before tables of these lengths
        compute = compute_code(input.dtype.code)
        tables = [table_of(axis) for axis in axes]
        form = choose_form(axes, tables, channels)
        key = (form, input.dtype.code, device.type)
        kernel = self.kernels.get(key)
        if kernel is None:
            build = pick_nest if form.picks else channels_nest if channels else rows_nest
            made = build(form, input.dtype.code)
            kernel = self.kernels[key] = as_step(compile_for(device, made))
        constants, ints = Constants(), compute[0] != "f"
        table_operands = [constants.add(t) for k, table in enumerate(tables) for t in table_bytes(table, form, k, ints, compute, axes[k])]
        params = [n for axis in axes for n in (axis.target, axis.source)] + [max(1, table.taps) for table in tables]
        if channels:
            extent, work = shape[0] * product(space), shape[1] * product(table.taps for table in tables)
            step = (kernel, [0, *table_operands, 1], [*params, shape[1]], extent, max(1, GRAIN // max(1, work)), -1, bytes(constants.data))
            return _C.Plan(1, device, slots, [step])
        extent = product(lead) * product(space[:-1])
        work = axes[-1].source * product(table.taps for table in tables[:-1]) + axes[-1].target * tables[-1].taps
        grain = max(1, GRAIN // max(1, work))
        regular = regular_part(axes[-1])
        phases = phased_part(axes[-1])
        stretch = regular or phases or (pattern_of(axes[-1]) if form.pattern[0] else None)
        low, high, padding = (stretch.low, stretch.high, regular.padding if regular else 0) if stretch else (0, 0, 0)
        params += [grain, low, high, padding]
        scratch = (-(-extent // grain), axes[-1].source) if len(axes) > 1 else (1,)
        slots.append(("temp", _C.int64 if ints else dtype_of(compute), scratch, None, 0, 0))
        step = (kernel, [0, *table_operands, 1, 2], params, extent, grain, -1, bytes(constants.data))
        return _C.Plan(1, device, slots, [step])


def has_few_channels(input: Any, axes: Sequence[Axis]) -> bool:
    """Whether channels lie last but fill no vector, and there is something to add up."""
    if not is_channels_last(input, len(axes)) or input.shape[1] >= FEW_CHANNELS:
        return False
    return not choose_form(axes, [table_of(axis) for axis in axes], True).picks


def dtype_of(code: str) -> Any:
    """The dtype object of a compute type."""
    return _C.float64 if code == "f64" else _C.float32


def choose_form(axes: Sequence[Axis], tables: Sequence[Table], channels: bool) -> Form:
    """The kernel that serves these windows."""
    weighted = tuple(table.weights is not None for table in tables)
    divided = any(table.divisors is not None for table in tables)
    last, table = axes[-1], tables[-1]
    picks = not any(weighted) and not divided and all(n == 1 for t in tables for n in t.counts)
    if channels or picks:
        return Form(channels, weighted, divided, 0, 0, False, picks)
    regular = regular_part(last)
    if regular is not None and regular.high - regular.low >= 8 and regular.stride <= 8:
        return Form(False, weighted, divided, regular.stride, regular.taps if regular.taps <= UNROLLED else 0, False)
    phases = phased_part(last)
    if phases is not None and phases.high - phases.low >= 4 and sum(b - a + 1 for a, b in phases.taps) <= MOST_PHASES:
        return Form(False, (*weighted[:-1], False), divided, 0, 0, False, False, phases.taps)
    pattern = pattern_of(last)
    if pattern is not None and pattern.high - pattern.low >= 8 and sum(len(weights) for _, weights in pattern.windows) <= MOST_PHASES:
        return Form(False, weighted, divided, 0, 0, False, False, (), (pattern.up, pattern.down, pattern.windows))
    if weighted[-1] and 0 < table.taps <= UNROLLED and last.target >= 8:
        return Form(False, weighted, divided, 0, table.taps, min(table.counts) < table.taps)
    return Form(False, weighted, divided, 0, 0, False)


def table_bytes(table: Table, form: Form, k: int, ints: bool, compute: str, axis: Axis) -> tuple[bytes, bytes]:
    """Starts and counts, then weights or divisors."""
    count, last = len(table.starts), k == len(form.weighted) - 1
    starts, weights = table.starts, table.weights
    taps = table.taps
    if last and form.taps and not form.stride:
        # All taps are read, also those without weight: windows move back to stay inside the input.
        moved = [min(s, axis.source - taps) for s in starts]
        weights = [[0.0] * (s - m) + w for s, m, w in zip(starts, moved, weights, strict=True)]
        starts = moved
    if last and form.phases:
        numbers = [1.0 / divisor for divisor in table_of(axis.flipped()).divisors]
    elif weights is not None:
        padded = [w + [0.0] * (taps - len(w)) for w in weights]
        numbers = [padded[o][t] for t in range(taps) for o in range(count)] if last and not form.channels else [v for w in padded for v in w]
    else:
        numbers = list(table.divisors or (1,) * count)
    return integers([*starts, *table.counts]), integers([int(v) for v in numbers]) if ints else floats(numbers, compute)


class Boxes:
    """Names shared by both nests: operand numbers, sizes, and the windows of the outer dims."""

    def __init__(self, form: Form, code: str) -> None:
        self.form, self.code = form, code
        self.compute = compute_code(code)
        self.count = len(form.weighted)
        self.out = 1 + 2 * self.count
        self.targets = [f"n{d}" for d in range(self.count)]
        self.sources = [f"m{d}" for d in range(self.count)]
        self.params = [name for pair in zip(self.targets, self.sources, strict=True) for name in pair]
        self.params += [f"taps{d}" for d in range(self.count)]

    def first(self, d: int, at: Value) -> Value:
        return load(1 + 2 * d, at, "i64")

    def length(self, d: int, at: Value) -> Value:
        return load(1 + 2 * d, var(self.targets[d]) + at, "i64")

    def number(self, d: int, at: Value) -> Value:
        return load(2 + 2 * d, at, self.compute)

    def windows(self, dims: Sequence[int]) -> list[Statement]:
        """Locals with the windows of the row's dims, and the product of their divisors."""
        made: list[Statement] = []
        divisor = None
        for d in dims:
            at = var(f"o{d}")
            made += [Local(f"first{d}", self.first(d, at)), Local(f"length{d}", self.length(d, at))]
            if self.form.divided and not self.form.weighted[d]:
                own = self.number(d, at)
                divisor = own if divisor is None else divisor * own
        if divisor is not None:
            made.append(Local("divisor", divisor))
        return made

    def box(self, dims: Sequence[int], x: Value, skip: str = "") -> tuple[Statement, ...]:
        """Loops over the windows of `dims` that add `x`, an element at k0, k1, ..., times its weights to acc."""
        scale = None
        for d in dims:
            if self.form.weighted[d]:
                own = self.number(d, var(f"o{d}") * var(f"taps{d}") + var(f"k{d}"))
                scale = own if scale is None else scale * own
        add = Assign("acc", var("acc", self.compute) + (x if scale is None else x * scale))
        return nested([(f"k{d}", var(f"length{d}")) for d in dims], [add])

    def divide(self, value: Value, divisor: Value | None) -> Value:
        if divisor is None:
            return value
        return idiv(value, divisor) if self.compute[0] != "f" else value / divisor


def channels_nest(form: Form, code: str) -> Nest:
    """Rows are output pixels, lanes are channels."""
    box = Boxes(form, code)
    dims = range(box.count)
    place = var("o.rest")
    for d in dims:
        place = place * var(box.sources[d]) + (var(f"first{d}") + var(f"k{d}"))
    x = cast(load(0, place * var("channels") + var("c"), code), box.compute)
    total = box.divide(var("acc", box.compute), var("divisor", box.compute) if form.divided else None)
    lanes = For("c", ZERO, var("channels"), (
        Local("acc", const(0, box.compute)), *box.box(dims, x),
        Store(box.out, var("i") * var("channels") + var("c"), cast(total, code)),
    ), vector=True)  # fmt: skip
    body = [*unravel(var("i"), box.targets, "o"), *box.windows(dims), lanes]
    tables = ["i64", box.compute] * box.count
    return Nest("window_sum_channels", operands([code, *tables], [code]), (*box.params, "channels"), rows(*body))


def pick_nest(form: Form, code: str) -> Nest:
    """Elements copied from where the tables say."""
    box = Boxes(form, code)
    outer, channels = range(box.count if form.channels else box.count - 1), form.channels
    place = var("o.rest")
    for d in outer:
        place = place * var(box.sources[d]) + box.first(d, var(f"o{d}"))
    width = var("channels") if channels else var(box.sources[-1])
    target = var("i") * (width if channels else var(box.targets[-1])) + var("j")
    inside = var("j") if channels else box.first(box.count - 1, var("j"))
    body: list[Statement] = [*unravel(var("i"), [box.targets[d] for d in outer], "o"), Local("source", place * width)]
    stop = width if channels else var(box.targets[-1])
    body.append(For("j", ZERO, stop, (Store(box.out, target, load(0, var("source") + inside, code)),), vector=True))
    tables = ["i64", box.compute] * box.count
    extra = ("channels",) if channels else ("grain", "low", "high", "padding")
    return Nest("window_pick", operands([code, *tables], [code], [] if channels else [box.compute]), (*box.params, *extra), rows(*body))


def rows_nest(form: Form, code: str) -> Nest:
    """Rows of the output: first the box's rows become one scratch row, then its windows become elements."""
    box = Boxes(form, code)
    last, outer, compute = box.count - 1, range(box.count - 1), box.compute
    scratch = box.out + 1
    width = var(box.sources[last])
    body: list[Statement] = [*unravel(var("i"), box.targets[:last], "o"), *box.windows(outer)]
    if outer:
        place = var("o.rest")
        for d in outer:
            place = place * var(box.sources[d]) + (var(f"first{d}") + var(f"k{d}"))
        x = cast(load(0, place * width + var("x"), code), compute)
        body.append(Local("own", idiv(var("begin"), var("grain")) * width))   # each chunk has a scratch row
        total = var("acc", compute) * box.number(last, var("x")) if form.phases else var("acc", compute)
        column = (Local("acc", const(0, compute)), *box.box(outer, x), Store(scratch, var("own") + var("x"), total))
        body.append(For("x", ZERO, width, column, vector=True))

        def read(at: Value) -> Value:
            return load(scratch, var("own") + at, compute)
    else:
        body.append(Local("own", var("o.rest") * width))

        def read(at: Value) -> Value:
            x = cast(load(0, var("own") + at, code), compute)
            return x * box.number(last, at) if form.phases else x

    body += along_row(box, read, last)
    params = (*box.params, "grain", "low", "high", "padding")
    return Nest("window_sum", operands([code, *["i64", compute] * box.count], [code, compute]), params, rows(*body))


def along_row(box: Boxes, read: Any, last: int) -> list[Statement]:
    """The second stage: windows of a row."""
    form, compute = box.form, box.compute
    end = var(box.targets[last])

    def store(place: Value, value: Value) -> Store:
        divisor = None
        if form.divided and not form.weighted[last]:
            divisor = box.number(last, place)
            divisor = divisor * var("divisor", compute) if last else divisor
        elif form.divided:
            divisor = var("divisor", compute)
        return Store(box.out, var("i") * end + place, cast(box.divide(value, divisor), box.code))

    def loop(name: str, start: Value, stop: Value) -> For:
        x = read(var(f"{name}.first") + var(f"{name}.t"))
        if form.weighted[last]:
            x = x * box.number(last, var(f"{name}.t") * end + var(name))
        acc = f"{name}.acc"
        return For(name, start, stop, (
            Local(f"{name}.first", box.first(last, var(name))), Local(acc, const(0, compute)),
            For(f"{name}.t", ZERO, box.length(last, var(name)), (Assign(acc, var(acc, compute) + x),)),
            store(var(name), var(acc, compute)),
        ))  # fmt: skip

    if form.stride:
        low, high = var("low"), var("high")
        return [loop("a", ZERO, low), whole_windows(box, read, store), loop("b", high, end)]
    if form.phases:
        step = const(len(form.phases), "i64")
        return [loop("a", ZERO, var("low") * step), whole_steps(box, read, store), loop("b", var("high") * step, end)]
    if form.pattern[0]:
        step = const(form.pattern[0], "i64")
        return [loop("a", ZERO, var("low") * step), repeated_windows(box, read, store), loop("b", var("high") * step, end)]
    if not form.taps:
        return [loop("a", ZERO, end)]
    total = None
    for t in range(form.taps):
        weight = box.number(last, const(t, "i64") * end + var("j"))
        x = read(var("j.first") + const(t, "i64")) * weight
        if form.masked:
            x = select(ne(weight, const(0, compute)), x, const(0, compute))
        total = x if total is None else total + x
    return [For("j", ZERO, end, (Local("j.first", box.first(last, var("j"))), store(var("j"), total)), vector=True)]


def repeated_windows(box: Boxes, read: Any, store: Any) -> For:
    """Windows whose weights repeat from step to step, so that they are part of the code."""
    up, down, windows = box.form.pattern
    stores: list[Statement] = []
    for k, (first, weights) in enumerate(windows):
        total = None
        for t, weight in enumerate(weights):
            x = read(var("w") * const(down, "i64") + const(first + t, "i64")) * const(weight, box.compute)
            total = x if total is None else total + x
        stores.append(store(var("w") * const(up, "i64") + const(k, "i64"), const(0, box.compute) if total is None else total))
    return For("w", var("low"), var("high"), tuple(stores), vector=up == 1)


def whole_steps(box: Boxes, read: Any, store: Any) -> For:
    """The elements between two starts of windows at a time: which outputs they see is known for each."""
    stores: list[Statement] = []
    for r, (first, last) in enumerate(box.form.phases):
        total = None
        for t in range(first, last + 1):
            x = read(var("w") + const(t, "i64"))
            total = x if total is None else total + x
        place = var("w") * const(len(box.form.phases), "i64") + const(r, "i64")
        stores.append(store(place, const(0, box.compute) if total is None else total))
    return For("w", var("low"), var("high"), tuple(stores), vector=len(box.form.phases) == 1)


def whole_windows(box: Boxes, read: Any, store: Any) -> For:
    """Windows that lie inside the input and start every `stride` elements, in vectors."""
    form, compute = box.form, box.compute
    start = var("w") * const(form.stride, "i64") - var("padding")
    if form.taps:
        total = read(start)
        for t in range(1, form.taps):
            total = total + read(start + const(t, "i64"))
        return For("w", var("low"), var("high"), (store(var("w"), total),), vector=True)
    acc = var("w.acc", compute)
    add = Assign("w.acc", acc + read(start + var("w.t")))
    return For("w", var("low"), var("high"), (
        Local("w.acc", const(0, compute)), For("w.t", ZERO, var(f"taps{box.count - 1}"), (add,)), store(var("w"), acc),
    ), vector=True)  # fmt: skip
