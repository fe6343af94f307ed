"""Windowed maxima: the largest element of a box of the input per output element, and where it is.

Enters: [..., spatial dims], one axis per spatial dim (`axes`), and the type of positions. Leaves: the maxima and their
positions in the flattened spatial dims: the first of equals, the last NaN if there is one. The gradient goes to those
positions, plane by plane, planes in parallel. Refuses: positions outside the plane, where they come from a caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rushlight import _C
from rushlight.loops.expr import Value, and_, cast, const, eq, ge, gt, idiv, load, lt, min_, ne, or_, select, var
from rushlight.loops.nest import Assign, Check, For, Local, Nest, Statement, Store, operands, rows
from rushlight.op import find_op
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.memory import check_memory
from rushlight.op.pointwise import BY_CODE, compile_for, compute_code
from rushlight.op.reduction import GRAIN, as_step, product
from rushlight.ops.reduction.extremes import lowest

from .axes import POOL, Axis, Constants, integers, regular_part, table_of, unpack
from .layout import ZERO, channels_last_strides, dense, in_order, is_channels_last, is_dense, nested, unravel

UNROLLED = 8
INDEX_CODE = {0: None, 32: "i32", 64: "i64"}
INDEX_TYPE = {32: _C.int32, 64: _C.int64}
BLOCK = 64    # channels one scatter handles
MANY = 9      # elements of a box past which its columns are worth a pass of their own


class Form(NamedTuple):
    """What the code of a kernel depends on, apart from the dtype."""

    channels: bool
    count: int
    index: str | None
    stride: int       # of whole windows along the last dim; 0: all windows come from the table
    dilation: int     # of those windows
    taps: int
    columns: bool = False   # the columns of a box are searched first, in vectors, and then their winners


class WindowMax(OpDefinition):
    """Maxima over boxes of the last dims, and their positions (of `index` bits)."""

    schema = "_window_max(Tensor input, int[] axes, int index) -> (Tensor, Tensor)"
    function = method = out = False
    batch = "leading"
    kind = KIND_PLANNED

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, input: Any, axes: Sequence[int], index: int) -> Any:
        """Inputs in another memory order are copied first."""
        input = dense(input, len(unpack(axes)))
        return self.plan((input, axes, index))(input)

    saved_results = (1,)

    def vjp(self, g: Any, axes: Sequence[int], result: Any) -> dict[str, Any]:
        sizes = [axis.size for axis in unpack(axes)]
        return {"input": None if g[0] is None else find_op("_window_max_backward")(g[0], result[1], sizes, False)}

    def plan(self, args: tuple) -> Any:
        input, axes, index = args[0], unpack(args[1]), args[2]
        if not is_dense(input, len(axes)):
            return None
        space = tuple(axis.out for axis in axes)
        shape, device = (*input.shape[: input.ndim - len(axes)], *space), input.device
        channels = is_channels_last(input, len(axes))
        strides = channels_last_strides(shape) if channels else None
        slots = [("new", dtype, shape, strides, 0, 0) for dtype in (input.dtype, INDEX_TYPE[index])]
        if device.type == "meta" or 0 in shape:
            return _C.Plan(1, device, slots, [], False)
        check_memory(shape, input.dtype, device)   # before tables of these lengths
        tables, constants = [table_of(axis) for axis in axes], Constants()
        form = choose_form(axes, [t.taps for t in tables], channels, INDEX_CODE[index])
        key = (form, input.dtype.code, device.type)
        kernel = self.kernels.get(key)
        if kernel is None:
            kernel = self.kernels[key] = as_step(compile_for(device, max_nest(form, input.dtype.code)))
        places = [constants.add(integers([*t.starts, *t.counts])) for t in tables]
        params = [n for axis in axes for n in (axis.out, axis.size, axis.d if axis.rule == POOL else 1)]
        regular = regular_part(axes[-1])
        work = product(t.taps for t in tables) * (shape[1] if channels else space[-1])
        extent = shape[0] * product(space) if channels else product(shape[:-1])
        params += [shape[1]] if channels else [regular.low, regular.high, regular.padding] if regular else [0, 0, 0]
        grain = max(1, GRAIN // max(1, work))
        if form.columns:
            params.append(grain)
            scratch = (-(-extent // grain), axes[-1].size)
            slots += [("temp", dtype, scratch, None, 0, 0) for dtype in (BY_CODE[compute_code(input.dtype.code)], INDEX_TYPE[index])]
        operand_slots = [0, *places, *range(1, 1 + len(slots))]
        return _C.Plan(1, device, slots, [(kernel, operand_slots, params, extent, grain, -1, bytes(constants.data))], False)


def choose_form(axes: Sequence[Axis], taps: Sequence[int], channels: bool, index: str | None) -> Form:
    """The kernel that serves these windows."""
    regular = None if channels else regular_part(axes[-1])
    if regular is None or regular.high - regular.low < 8 or regular.stride > 8 or axes[-1].d > 4 or regular.taps > UNROLLED:
        columns = not channels and len(axes) > 1 and product(taps) >= MANY and axes[-1].size >= 8
        return Form(channels, len(axes), index, 0, 0, 0, columns)
    return Form(channels, len(axes), index, regular.stride, axes[-1].d, regular.taps)


class Search:
    """Names shared by the loops: operand numbers, sizes, the best so far."""

    def __init__(self, form: Form, code: str) -> None:
        self.form, self.code, self.compute = form, code, compute_code(code)
        self.count = form.count
        self.targets = [f"n{d}" for d in range(self.count)]
        self.params = [f"{p}{d}" for d in range(self.count) for p in ("n", "m", "step")]
        self.out = 1 + self.count
        self.index = form.index or "i32"

    def windows(self, dims: Sequence[int]) -> list[Statement]:
        made: list[Statement] = []
        for d in dims:
            made += [Local(f"first{d}", self.first(d, var(f"o{d}"))), Local(f"length{d}", self.length(d, var(f"o{d}")))]
        return made

    def first(self, d: int, at: Value) -> Value:
        """Where the window of output position `at` starts."""
        return load(1 + d, at, "i64")

    def length(self, d: int, at: Value) -> Value:
        """How many elements it has."""
        return load(1 + d, var(self.targets[d]) + at, "i64")

    def step(self, d: int) -> Value:
        """Distance of its elements."""
        return var(f"step{d}")

    def flat(self, dims: Sequence[int], start: bool) -> Value:
        """Position in the flattened `dims`: of the window's start, or of its element k0, k1, ..."""
        at = ZERO
        for d in dims:
            own = var(f"first{d}")
            at = at * var(f"m{d}") + (own if start else own + var(f"k{d}") * self.step(d))
        return at

    def better(self, x: Value, best: Value) -> Value:
        return or_(gt(x, best), ne(x, x)) if self.compute[0] == "f" else gt(x, best)

    def start(self, at: Value, prefix: str) -> list[Statement]:
        return [Local(f"{prefix}best", const(lowest(self.compute), self.compute)), Local(f"{prefix}at", cast(at, self.index))]

    def consider(self, x: Value, at: Value, prefix: str, name: str) -> list[Statement]:
        """Keep `x` at position `at` if it beats what was found so far."""
        best, known = var(f"{prefix}best", self.compute), var(f"{prefix}at", self.index)
        wins = f"{name}.wins"
        return [
            Local(f"{name}.x", x), Local(wins, self.better(var(f"{name}.x", self.compute), best)),
            Assign(best.attr, select(var(wins, "b1"), var(f"{name}.x", self.compute), best)),
            Assign(known.attr, select(var(wins, "b1"), at, known)),
        ]  # fmt: skip

    def stores(self, place: Value, prefix: str) -> list[Statement]:
        values = Store(self.out, place, cast(var(f"{prefix}best", self.compute), self.code))
        return [values, Store(self.out + 1, place, var(f"{prefix}at", self.index))]


def max_nest(form: Form, code: str) -> Nest:
    """Rows are output rows with the last dim inside them, or output pixels with channels as lanes."""
    search = Search(form, code)
    dims = range(search.count)
    signature = operands([code, *["i64"] * search.count], [code, search.index])
    if form.channels:
        at = search.flat(dims, start=False)
        planes = var("o.rest")
        for d in dims:
            planes = planes * var(f"m{d}")
        x = cast(load(0, (planes + at) * var("channels") + var("c"), code), search.compute)
        found = nested([(f"k{d}", var(f"length{d}")) for d in dims], search.consider(x, cast(at, search.index), "", "k"))
        place = var("i") * var("channels") + var("c")
        lanes = For("c", ZERO, var("channels"), (*search.start(search.flat(dims, start=True), ""), *found, *search.stores(place, "")), vector=True)
        body = [*unravel(var("i"), search.targets, "o"), *search.windows(dims), lanes]
        return Nest("window_max_channels", signature, (*search.params, "channels"), rows(*body))
    outer = dims[:-1]
    plane = var("o.rest")
    for d in dims:
        plane = plane * var(f"m{d}")
    body = [*unravel(var("i"), search.targets[:-1], "o"), *search.windows(outer), Local("plane", plane)]
    end = var(search.targets[-1])
    if form.columns:
        body += search_columns(search)
        signature = (*signature, *operands([], [], [search.compute, search.index]))
        return Nest("window_max_columns", signature, (*search.params, "low", "high", "padding", "grain"), rows(*body))
    if form.stride:
        body += [search_row(search, "a", ZERO, var("low")), whole_windows(search), search_row(search, "b", var("high"), end)]
    else:
        body += [search_row(search, "a", ZERO, end)]
    return Nest("window_max", signature, (*search.params, "low", "high", "padding"), rows(*body))


def search_columns(search: Search) -> list[Statement]:
    """The best of every column of the box's rows, kept in scratch rows; then the best columns of each window."""
    last, compute, index = search.count - 1, search.compute, search.index
    width, end, outer = var(f"m{last}"), var(search.targets[last]), range(last)
    values, places = search.out + 2, search.out + 3
    row = search.flat(outer, start=False) * width
    x = cast(load(0, var("plane") + row + var("x"), search.code), compute)
    found = nested([(f"k{d}", var(f"length{d}")) for d in outer], search.consider(x, cast(row, index) + var("x.index", index), "x.", "x.k"))
    own = var("own") + var("x")
    column = For("x", ZERO, width, (
        Local("x.index", cast(var("x"), index)), *search.start(search.flat(outer, start=True) * width + var("x"), "x."), *found,
        Store(values, own, var("x.best", compute)), Store(places, own, var("x.at", index)),
    ), vector=True)  # fmt: skip
    at = var("own") + var("a.first") + var("a.t") * search.step(last)
    value, place = var("a.x", compute), var("a.place", index)
    best, known = var("a.best", compute), var("a.at", index)
    # Columns come in order, rows do not: of equals the one with the lower position was first, of NaN the higher was last.
    wins = or_(gt(value, best), and_(eq(value, best), lt(place, known)))
    if compute[0] == "f":
        wins = or_(wins, and_(ne(value, value), or_(eq(best, best), gt(place, known))))
    take = (
        Local("a.x", load(values, at, compute)), Local("a.place", load(places, at, index)), Local("a.wins", wins),
        Assign("a.best", select(var("a.wins", "b1"), value, best)), Assign("a.at", select(var("a.wins", "b1"), place, known)),
    )  # fmt: skip
    start = search.flat(outer, start=True) * width + var("a.first")
    windows = For("a", ZERO, end, (
        Local("a.first", search.first(last, var("a"))), *search.start(start, "a."),
        For("a.t", ZERO, search.length(last, var("a")), take), *search.stores(var("i") * end + var("a"), "a."),
    ))  # fmt: skip
    return [Local("own", idiv(var("begin"), var("grain")) * width), column, windows]


def search_row(search: Search, name: str, low: Value, high: Value) -> For:
    """Outputs [low, high) of a row one by one, with windows from the table."""
    last = search.count - 1
    width, end = var(f"m{last}"), var(search.targets[last])
    first, prefix = var(f"{name}.first"), f"{name}."
    inside = first + var(f"{name}.t") * search.step(last)
    outer = range(last)
    names = {d: f"{name}.k{d}" for d in outer}
    at = ZERO
    for d in outer:
        at = at * var(f"m{d}") + (var(f"first{d}") + var(names[d]) * search.step(d))
    at = at * width + inside
    x = cast(load(0, var("plane") + at, search.code), search.compute)
    loops = [(names[d], var(f"length{d}")) for d in outer] + [(f"{name}.t", var(f"{name}.length"))]
    found = nested(loops, search.consider(x, cast(at, search.index), prefix, f"{name}.k"))
    start = search.flat(outer, start=True) * width + first
    return For(name, low, high, (
        Local(first.attr, search.first(last, var(name))), Local(f"{name}.length", search.length(last, var(name))),
        *search.start(start, prefix), *found, *search.stores(var("i") * end + var(name), prefix),
    ))  # fmt: skip


def whole_windows(search: Search) -> For:
    """Outputs whose windows lie inside the row and start every `stride` elements, in vectors."""
    form, last = search.form, search.count - 1
    width, end, outer = var(f"m{last}"), var(search.targets[last]), range(last)
    first = var("w") * const(form.stride, "i64") - var("padding")
    row = search.flat(outer, start=False) * width
    body: list[Statement] = [Local("w.first", cast(first, search.index))]
    body += search.start(search.flat(outer, start=True) * width + first, "w.")
    taps: list[Statement] = []
    for t in range(form.taps):
        shift = row + const(t * form.dilation, "i64")
        x = cast(load(0, var("plane") + shift + first, search.code), search.compute)
        taps += search.consider(x, var("w.first", search.index) + cast(shift, search.index), "w.", f"w{t}")
    body += nested([(f"k{d}", var(f"length{d}")) for d in outer], taps)
    return For("w", var("low"), var("high"), (*body, *search.stores(var("i") * end + var("w"), "w.")), vector=True)


# --- gradient -------------------------------------------------------------------------------------------------------------


class WindowMaxBackward(OpDefinition):
    """Zeros of the last dims `sizes`, with each element of `g` added at its position; positions are tested if `checked`."""

    schema = "_window_max_backward(Tensor g, Tensor indices, int[] sizes, bool checked) -> Tensor"
    function = method = out = False
    batch = "leading"
    kind = KIND_PLANNED

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, g: Any, indices: Any, sizes: Sequence[int], checked: bool) -> Any:
        """Arguments in other memory orders are copied first."""
        channels = is_channels_last(indices, len(sizes))
        g, indices = in_order(g, channels), in_order(indices, channels)
        return self.plan((g, indices, sizes, checked))(g, indices)

    def vjp(self, gg: Any, indices: Any, sizes: Sequence[int]) -> dict[str, Any]:
        flat = indices.flatten(-len(sizes))
        return {"g": gg.flatten(-len(sizes)).gather(-1, flat).view(indices.shape)}

    def plan(self, args: tuple) -> Any:
        g, indices, sizes, checked = args
        count, device = len(sizes), g.device
        channels = is_channels_last(indices, count)
        if is_channels_last(g, count) != channels or not is_dense(g, count) or not is_dense(indices, count):
            return None
        shape = (*g.shape[: g.ndim - count], *sizes)
        slots: list[tuple] = [("new", g.dtype, shape, channels_last_strides(shape) if channels else None, 0, 0)]
        if device.type == "meta" or 0 in shape:
            return _C.Plan(2, device, slots, [])
        key = (g.dtype.code, indices.dtype.code, channels, checked, device.type)
        kernel = self.kernels.get(key)
        if kernel is None:
            kernel = self.kernels[key] = as_step(compile_for(device, scatter_nest(*key[:4])))
        length, plane = product(g.shape[g.ndim - count :]), product(sizes)
        if channels:
            blocks = -(-shape[1] // BLOCK)
            extent, work, params = shape[0] * blocks, (length + plane) * min(BLOCK, shape[1]), [length, plane, shape[1], blocks]
        else:
            extent, work, params = product(shape[: len(shape) - count]), length + plane, [length, plane]
        error = -1
        if checked:
            slots.append(("temp", _C.int64, (1,), None, 0, 0))
            error = 3
        step = (kernel, [0, 1, 2, *((3,) if checked else ())], params, extent, max(1, GRAIN // max(1, work)), error)
        return _C.Plan(2, device, slots, [step], True, None, bad_position if checked else None)


def bad_position(code: int) -> None:
    """The error of a position outside its plane."""
    raise RuntimeError(f"max pooling: found an invalid max index {code - 1 if code > 0 else code}: it lies outside the plane")


def scatter_nest(code: str, index: str, channels: bool, checked: bool) -> Nest:
    """A plane per row: cleared, then every gradient is added where its maximum was."""
    compute = compute_code(code)
    length, plane, zero = var("length"), var("plane"), const(0, code)
    if channels:
        first = idiv(var("i"), var("blocks"))
        low = (var("i") - first * var("blocks")) * const(BLOCK, "i64")
        head: list[Statement] = [Local("image", first), Local("low", low), Local("high", min_(var("low") + const(BLOCK, "i64"), var("channels")))]
        width = var("channels")
        clear = For("z", ZERO, plane, (For("z.c", var("low"), var("high"), (Store(2, (var("image") * plane + var("z")) * width + var("z.c"), zero),), vector=True),))
        source = (var("image") * length + var("o")) * width + var("c")
        base = var("image") * plane
        target = (base + var("at")) * width + var("c")
    else:
        head, base = [], var("i") * plane
        clear = For("z", ZERO, plane, (Store(2, base + var("z"), zero),), vector=True)
        source, target = var("i") * length + var("o"), base + var("at")
    old, new = cast(load(2, target, code), compute), cast(load(0, source, code), compute)
    body: list[Statement] = [Local("at", cast(load(1, source, index), "i64"))]
    if checked:
        at = var("at")
        body.append(Check(and_(ge(at, ZERO), lt(at, plane)), 3, select(ge(at, ZERO), at + const(1, "i64"), at)))
    body.append(Store(2, target, cast(old + new, code)))
    inner: tuple[Statement, ...] = tuple(body)
    if channels:
        inner = (For("c", var("low"), var("high"), inner),)
    params = ("length", "plane", *(("channels", "blocks") if channels else ()))
    return Nest("window_scatter", operands([code, index], [code], ["i64"] if checked else []), params, rows(*head, clear, For("o", ZERO, length, inner)))
