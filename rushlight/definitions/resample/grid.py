"""Grid sampling: images read at coordinates between -1 and 1, and the grids of affine maps.

Enters: images [batch, channels, spatial dims] and a grid [batch, output dims, coordinates], x first. Leaves:
interpolated samples [batch, channels, output dims]. Refuses: grids of another batch, dtype or device,
and third gradients.

A line of samples at a time, whatever rows the output has: first the corners each sample mixes, their places and
weights, go to scratch rows in vectors; then every channel is read through them, with samples on lanes, or, where
channels lie last and are not few, with those on lanes. Gradients for the image add through the same corners, a block of
planes at a time, blocks in parallel (on devices of many threads a sample at a time, by atomic sums); gradients for the
grid use derivatives of the weights. With a `direction` (one vector per sample) all three use the weights' derivative
along it, which is what second gradients are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from typing import Any, NamedTuple

from rushlight import _C
from rushlight.base.settings import are_deterministic_algorithms_enabled
from rushlight.codegen.schedule.forms.launch import GRAIN, Launch, Schedule, Temp, grain_of, product
from rushlight.codegen.schedule.forms.loops import clear_launch
from rushlight.codegen.text.primitives import SIZE
from rushlight.codegen.text.targets import vector_bits
from rushlight.definitions.window.layout import ZERO
from rushlight.loops.expr import (
    Value,
    abs_,
    and_,
    cast,
    const,
    eq,
    floor,
    ge,
    gt,
    idiv,
    irem,
    le,
    load,
    lt,
    max_,
    min_,
    ne,
    rewrite,
    rint,
    select,
    trunc,
    var,
)
from rushlight.loops.lowered import compute_code
from rushlight.loops.nest import For, If, Local, Nest, Operand, Statement, Store, operands, rows
from rushlight.op import Library, Spec, find_op

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
SHARPNESS = -0.75
ATOMIC = ("f32", "f64")      # types whose sums have an atomic instruction
LINE = 256    # samples whose places and weights are kept at a time
WHOLE = 32    # of which lines have multiples
# Channels whose elements take as long to gather as a block of channels to read and to turn: of several corners, of one,
# and of types that no instruction gathers.
FEW, FEW_OF_ONE, FEW_OF_HALVES = 5, 16, 3
BLOCK = 8     # planes whose gradients one piece of work adds up


class Form(NamedTuple):
    """What the code depends on, apart from the dtype."""

    count: int
    mode: int
    padding: int
    corners: bool
    directed: bool = False
    last: bool = False       # the image has its channels last
    block: int = 0           # so many of them are on lanes, for as many samples at a time; 0: samples are
    wide: bool = False       # coordinates and weights of half types are single precision, as on PyTorch's GPUs


class Tap(NamedTuple):
    """One of the positions along a dim that a sample mixes: where, whether it exists,
    its weight and two derivatives."""

    at: Value
    inside: Value
    weight: Value
    slope: Value
    curve: Value


# Coordinates
# ----------------------------------------------------------------------------------------------------------------


class Coordinate:
    """One coordinate of a sample, in elements of the image, with its derivative by the grid's number."""

    def __init__(self, form: Form, value: Value, size: Value) -> None:
        self.form, self.code = form, value.dtype
        self.size = cast(size, self.code)
        half, length = self.number(0.5), self.size - 1.0 if form.corners else self.size
        self.slope = half * length
        # As PyTorch orders it, which is what half types see.
        if form.count == 2:
            self.value = (value + 1.0) * self.slope if form.corners else (value + 1.0) * self.slope - 0.5
        else:
            self.value = (value + 1.0) * half * length if form.corners else ((value + 1.0) * length - 1.0) * half

    def number(self, value: float) -> Value:
        return const(value, self.code)

    def bounded(self, value: Value) -> tuple[Value, Value]:
        """A position moved into the image as the padding says, and the derivative of that."""
        one, zero = self.number(1.0), self.number(0.0)
        if self.form.padding == ZEROS:
            return value, one
        slope = one
        if self.form.padding == REFLECTION:
            value, slope = self.reflected(value)
        last = self.size - 1.0
        clipped = min_(last, max_(zero, value))
        return clipped, select(and_(gt(value, zero), lt(value, last)), slope, zero)

    def reflected(self, value: Value) -> tuple[Value, Value]:
        """A position folded back at the image's edges: at centres of pixels, or half a pixel outside."""
        one = self.number(1.0)
        low = self.number(0.0 if self.form.corners else -0.5)
        span = self.size - 1.0 if self.form.corners else self.size
        away = abs_(value - low)
        direction = select(lt(value, low), -one, one)
        flips = floor(away / span)
        rest = away - trunc(away / span) * span
        odd = ne(flips - floor(flips * 0.5) * 2.0, self.number(0.0))
        flat = le(span, self.number(0.0))
        folded = select(odd, span - rest, rest) + low
        return select(flat, self.number(0.0), folded), select(
            flat, self.number(0.0), select(odd, -direction, direction)
        )

    def taps(self) -> list[Tap]:
        """The positions along this dim that the sample mixes."""
        zero, one = self.number(0.0), self.number(1.0)
        if self.form.mode == BICUBIC:
            return self.cubic_taps()
        value, slope = self.bounded(self.value)
        if self.form.mode == NEAREST:
            at = rint(value)
            return [Tap(cast(at, "i64"), self.inside(at), one, zero, zero)]
        first = floor(value)
        part, slope = value - first, slope * self.slope
        return [
            Tap(cast(first, "i64"), self.inside(first), one - part, -slope, zero),
            Tap(cast(first + 1.0, "i64"), self.inside(first + 1.0), part, slope, zero),
        ]

    def inside(self, at: Value) -> Value:
        return and_(ge(at, self.number(0.0)), lt(at, self.size))

    def cubic_taps(self) -> list[Tap]:
        first = floor(self.value)
        t = self.value - first
        result = []
        for k, (weight, slope, curve) in enumerate(cubic_weights(t)):
            at, _ = self.bounded(first + (k - 1.0))
            result.append(
                Tap(cast(at, "i64"), self.inside(at), weight, slope * self.slope, curve * self.slope * self.slope)
            )
        return result


def cubic_weights(t: Value) -> list[tuple[Value, Value, Value]]:
    """Weights of the four neighbours of a sample at `t` behind the second, and their first two derivatives."""
    a = SHARPNESS

    def near(x: Value) -> tuple[Value, Value, Value]:
        return ((a + 2) * x - (a + 3)) * x * x + 1.0, (3 * (a + 2) * x - 2 * (a + 3)) * x, 6 * (a + 2) * x - 2 * (a + 3)

    def far(x: Value) -> tuple[Value, Value, Value]:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a, 6 * a * x - 10 * a

    def behind(found: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
        return found[0], -found[1], found[2]

    back = 1.0 - t
    return [far(t + 1.0), near(t), behind(near(back)), behind(far(back + 1.0))]


def mixed(form: Form, code: str, grid: int, sample: Value, slopes: bool) -> list[tuple[Value, Value, list[Value]]]:
    """(place in the plane, weight, derivative of the weight by each grid number) of everything a sample mixes.

    The direction, if there is one, is the operand after the grid: then the weight is its derivative along it.
    """
    compute = compute_code(code)
    per_dim, along = [], []
    for d in range(form.count):
        at = sample * const(form.count, "i64") + const(form.count - 1 - d, "i64")
        per_dim.append(Coordinate(form, cast(load(grid, at, code), compute), var(f"m{d}")).taps())
        along.append(cast(load(grid + 1, at, code), compute) if form.directed else None)
    found = []
    for taps in combinations(*per_dim):
        inside, place = taps[0].inside, taps[0].at
        for d in range(1, form.count):
            inside, place = and_(inside, taps[d].inside), place * var(f"m{d}") + taps[d].at
        none = const(0, compute)
        weight = derivative(taps, along, None)
        derived = [derivative(taps, along, k) for k in range(form.count - 1, -1, -1)] if slopes else []
        weight, *derived = as_rounded([weight, *derived], code, form.wide)
        found.append(
            (select(inside, place, ZERO), select(inside, weight, none), [select(inside, v, none) for v in derived])
        )
    if code != compute and not form.wide:   # the places depend on positions rounded as the half type rounds them
        places = as_rounded([place for place, _, _ in found], code, False)
        found = [(place, weight, derived) for place, (_, weight, derived) in zip(places, found, strict=True)]
    return found


def derivative(taps: Sequence[Tap], along: Sequence[Value | None], by: int | None) -> Value:
    """The product of the taps' weights, differentiated along the direction if there is one,
    and by dim `by` if given."""

    def term(orders: Sequence[int]) -> Value:
        total = None
        for tap, order in zip(taps, orders, strict=True):
            own = (tap.weight, tap.slope, tap.curve)[order]
            total = own if total is None else total * own
        return total

    base = [int(d == by) for d in range(len(taps))]
    if along[0] is None:
        return term(base)
    total = None
    for d, h in enumerate(along):
        own = h * term([order + int(e == d) for e, order in enumerate(base)])
        total = own if total is None else total + own
    return total


def as_rounded(values: Sequence[Value], code: str, wide: bool) -> list[Value]:
    """The values with every operation rounded to a half type, as PyTorch's CPU computes coordinates and weights in it;
    as they are where they are `wide`."""
    compute = compute_code(code)
    if code == compute or wide:
        return list(values)

    def rule(value: Value) -> Value | None:
        if value.dtype == compute and value.op in ("add", "sub", "mul", "div"):
            return cast(cast(value, code), compute)
        return None

    return rewrite(values, rule)


# The ops
# --------------------------------------------------------------------------------------------------------------------


class GridOp(Library):
    """What sampling and its gradients share: one kernel, with scratch rows for every chunk of work."""

    function = method = out = False
    batch = "fold"

    def is_planned(self, args: tuple) -> bool:
        return all(a._is_contiguous() for a in args if isinstance(a, _C.Tensor))

    def run(self, *args: Any) -> Any:
        """Tensors in another memory order are copied first."""
        dense = tuple(a.contiguous() if isinstance(a, _C.Tensor) else a for a in args)
        return self.plan(dense)(*[a for a in dense if isinstance(a, _C.Tensor)])

    def build(self, form: Form, code: str, apart: bool) -> Nest:
        raise NotImplementedError

    def launch(
        self, form: Form, tensors: Sequence[Any], params: Sequence[int], extent: int, work: int,
        rows_: Sequence[tuple[str, int]],
    ) -> Schedule:
        """The kernel over `tensors` and the result, with scratch rows per chunk of work (code, elements)."""
        apart = tensors[0].device.type != "cpu"      # every iteration may be a thread's: it needs rows of its own
        code, grain = tensors[0].dtype.code, 1 if apart else grain_of(work)
        chunks = -(-extent // grain)
        numbers = tuple(range(len(tensors) + 1 + len(rows_)))
        key = (form, code, apart)
        launch = Launch(key, lambda: self.build(*key), numbers, (*params, grain), extent, grain)
        return Schedule((launch,), tuple([Temp(own, (chunks, elements)) for own, elements in rows_]))


def corner_count(form: Form) -> int:
    """How many elements of the image a sample mixes."""
    return {BILINEAR: 2, NEAREST: 1, BICUBIC: 4}[form.mode] ** form.count


class Names:
    """Sizes as the nests call them: m the image's; `samples` of one, in `lines` of `length`; `row` of this line."""

    def __init__(self, form: Form) -> None:
        self.samples, self.row, self.length = var("samples"), var("row"), var("length")
        self.params = ("channels", "samples", *(f"m{d}" for d in range(form.count)))
        self.in_lines = (*self.params, "length", "lines")
        self.plane = var("m0")
        for d in range(1, form.count):
            self.plane = self.plane * var(f"m{d}")
        self.count = corner_count(form)

    def scratch(self, k: int, at: Value) -> Value:
        return var("own") + const(k, "i64") * self.length + at

    def line(self, number: Value) -> list[Statement]:
        """Where a line of samples starts, and how many it has."""
        return [Local("first", number * self.length), Local("row", min_(self.length, self.samples - var("first")))]

    def line_of_image(self) -> list[Statement]:
        """The line that an iteration has."""
        return [Local("batch", idiv(var("i"), var("lines"))), *self.line(irem(var("i"), var("lines")))]


def lines_of(samples: int, device: Any) -> tuple[int, int]:
    """The length and the number of lines that the samples of an image are cut into: short ones where each is a
    thread's."""
    count = max(1, -(-samples // (LINE if device.type == "cpu" else WHOLE)))
    length = -(-samples // (count * WHOLE)) * WHOLE
    return length, -(-samples // length)


def prepare(
    form: Form, code: str, grid: int, names: Names, places: int, numbers: int, samples: Value, slopes: bool
) -> For:
    """The vector loop that fills scratch: places of corners, then weights (or their derivatives)."""
    body: list[Statement] = []
    for k, (place, weight, derived) in enumerate(mixed(form, code, grid, samples + var("w"), slopes)):
        place = place * var("channels") if form.last else place
        body.append(Store(places, names.scratch(k, var("w")), place))
        for d, value in enumerate(derived if slopes else [weight]):
            at = var("own.numbers") + const(k * form.count + d if slopes else k, "i64") * names.length + var("w")
            body.append(Store(numbers, at, value))
    return For("w", ZERO, names.row, tuple(body), vector=True)


class GridSampler(GridOp):
    """Samples of an image at the grid's coordinates, or their derivative along a direction."""

    def meta(self, input, grid, *rest):
        check_grid(self.name, input, grid, *rest[-3:])
        return Spec((*input.shape[:2], *grid.shape[1:-1]), input.dtype)

    def is_planned(self, args):
        image, *others = [a for a in args if isinstance(a, _C.Tensor)]
        dense = image._is_contiguous() or (image.device.type == "cpu" and has_channels_last(image))
        return dense and all(t._is_contiguous() for t in others)

    def launches(self, args):
        input, grid, *direction, mode, padding, corners = args
        last, wide = not input._is_contiguous(), input.device.type != "cpu"
        n, channels, *space = input.shape
        block = block_of(channels, input.dtype.code, mode) if last else 0
        form = Form(input.ndim - 2, mode, padding, corners, bool(direction), last, block, wide)
        out = list(grid.shape[1:-1])
        if input.device.type != "cpu":
            key = ("sampled", form, input.dtype.code)
            sampled = Launch(key, lambda: sampling_nest(*key[1:]), tuple(range(3 + form.directed)),
                             (channels, product(out), *space), n * product(out), 1)
            return Schedule((sampled,))
        (length, lines), count = lines_of(product(out), input.device), corner_count(form)
        rows_ = [("i64", count * length), (compute_code(input.dtype.code), count * length)]
        params, work = [channels, product(out), *space, length, lines], length * count * channels
        return self.launch(form, (input, grid, *direction), params, n * lines, work, rows_)

    def build(self, form, code, apart):
        names, compute, out = Names(form), compute_code(code), 2 + form.directed
        chunk = idiv(var("i" if apart else "begin"), var("grain")) * (const(names.count, "i64") * names.length)
        body: list[Statement] = [*names.line_of_image(), Local("own", chunk), Local("own.numbers", chunk)]
        line = var("batch") * names.samples + var("first")
        body.append(prepare(form, code, 1, names, out + 1, out + 2, line, slopes=False))
        body.append(Local("image", var("batch") * var("channels") * names.plane))
        body.append(Local("target", var("batch") * var("channels") * names.samples + var("first")))
        every, own = self.planes(form, names, code, out), operands([code] * out, [code], ["i64", compute])
        if form.block:
            every = If(ge(names.row, const(form.block, "i64")), self.squares(form, names, code, out), (every,))
            own += (Operand(code, form.block**2),)
        return Nest("grid_sampler", own, (*names.in_lines, "grain"), rows(*body, every))

    def mixture(self, code: str, parts: Sequence[tuple[Value, Value]]) -> Value:
        """The sum of (element, weight); what has no weight may be anything."""
        compute, total = compute_code(code), None
        for x, weight in parts:
            own = select(eq(weight, const(0, compute)), const(0, compute), cast(x, compute) * weight)
            total = own if total is None else total + own
        return cast(as_rounded([total], code, False)[0], code)

    def sample(self, names: Names, code: str, out: int, x: Value, at: Value) -> Value:
        """Sample `x` of a line, of the channel whose elements start at `at`."""
        parts = []
        for k in range(names.count):
            weight = load(out + 2, names.scratch(k, x), compute_code(code))
            parts.append((load(0, at + load(out + 1, names.scratch(k, x), "i64"), code), weight))
        return self.mixture(code, parts)

    def planes(self, form: Form, names: Names, code: str, out: int) -> For:
        """Samples of a line, channel by channel, samples on lanes."""
        at = Local("at", var("image") + (var("c") if form.last else var("c") * names.plane))
        here = Local("here", var("target") + var("c") * names.samples)
        store = Store(out, var("here") + var("x"), self.sample(names, code, out, var("x"), var("at")))
        return For("c", ZERO, var("channels"), (at, here, For("x", ZERO, names.row, (store,), vector=True)))

    def squares(self, form: Form, names: Names, code: str, out: int) -> tuple[Statement, ...]:
        """Samples of a line in squares of as many channels, which are on lanes while a square is computed; then samples
        are. The last squares end with the line and the channels, and hold some of those before them again."""
        side, square = const(form.block, "i64"), out + 3
        known, parts = [], []
        for k in range(names.count):
            place = names.scratch(k, var("x0") + var("q"))
            known.append(Local(f"at{k}", var("image") + var("c0") + load(out + 1, place, "i64")))
            known.append(Local(f"weight{k}", load(out + 2, place, compute_code(code))))
            parts.append((load(0, var(f"at{k}") + var("c"), code), var(f"weight{k}", compute_code(code))))
        store = Store(square, var("q") * side + var("c"), self.mixture(code, parts))
        sampled = For("q", ZERO, side, (*known, For("c", ZERO, side, (store,), vector=True)))
        turned = [
            Store(out, var("target") + (var("c0") + const(k, "i64")) * names.samples + var("x0") + var("x"),
                  load(square, var("x") * side + const(k, "i64"), code))
            for k in range(form.block)
        ]
        leave = For("x", ZERO, side, tuple(turned), vector=True, transposed=True)

        def steps(name: str, count: Value, body: Sequence[Statement]) -> For:
            first = min_(var(f"{name}.block") * side, count - side)
            blocks = idiv(count + const(form.block - 1, "i64"), side)
            return For(f"{name}.block", ZERO, blocks, (Local(f"{name}0", first), *body))

        return (steps("x", names.row, (steps("c", var("channels"), (sampled, leave)),)),)

    def vjp(self, g, input, grid, interpolation_mode, padding_mode, align_corners):
        rest = (interpolation_mode, padding_mode, align_corners)
        to_image = (
            find_op("_grid_sampler_image")(g, grid, list(input.shape[2:]), *rest) if input.requires_grad else None
        )
        # samples jump from element to element, and are flat between
        if interpolation_mode == NEAREST and not _C.is_grad_enabled():
            return {"input": to_image, "grid": grid.new_zeros(grid.shape)}
        to_grid = find_op("_grid_sampler_grid")(g, input, grid, *rest) if grid.requires_grad else None
        return {"input": to_image, "grid": to_grid}


def block_of(channels: int, code: str, mode: int) -> int:
    """How many channels that lie last go on lanes; 0 where they are so few that samples do."""
    block = vector_bits() // 8 // SIZE[compute_code(code)]
    while block > channels:
        block //= 2
    blocks, few = -(-channels // block), FEW_OF_ONE if mode == NEAREST else FEW_OF_HALVES if SIZE[code] < 4 else FEW
    return block if channels >= few * blocks else 0


def has_channels_last(image: Any) -> bool:
    """Whether an image lies dense in memory with its channels last."""
    step = image.shape[1]
    for d in range(image.ndim - 1, 1, -1):
        if image.stride(d) != step:
            return False
        step = step * image.shape[d]
    return image.stride(1) == 1 and image.stride(0) == step


def each_sample(names: Names) -> list[Statement]:
    """Which sample of which image an iteration has."""
    return [Local("batch", idiv(var("i"), names.samples)), Local("sample", irem(var("i"), names.samples))]


def sampling_nest(form: Form, code: str) -> Nest:
    """Samples of all channels by a thread each."""
    names, compute, out = Names(form), compute_code(code), 2 + form.directed
    body, plane, total = each_sample(names), var("batch") * var("channels") + var("c"), None
    for k, (place, weight, _) in enumerate(mixed(form, code, 1, var("i"), slopes=False)):
        body += [Local(f"at{k}", place), Local(f"weight{k}", weight)]
        x, weight = cast(load(0, var("plane") + var(f"at{k}"), code), compute), var(f"weight{k}", compute)
        own = select(eq(weight, const(0, compute)), const(0, compute), x * weight)
        total = own if total is None else total + own
    store = Store(out, plane * var("samples") + var("sample"), cast(as_rounded([total], code, form.wide)[0], code))
    body.append(For("c", ZERO, var("channels"), (Local("plane", plane * names.plane), store)))
    return Nest("grid_sampler_threads", operands([code] * out, [code]), names.params, rows(*body, vector=True))


class GridSampler2d(GridSampler):
    """Samples of images with two dims."""

    schema = (
        "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->"
        " Tensor"
    )
    function = True


class GridSampler3d(GridSampler):
    """Samples of images with three dims."""

    schema = (
        "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->"
        " Tensor"
    )
    function = True


def no_third_gradient(*_: Any) -> Any:
    """Raised where a third gradient is asked for; PyTorch has none either."""
    raise RuntimeError("grid_sample: the derivative of its second gradient is not implemented")


class GridSamplerAlong(GridSampler):
    """How samples change as the grid moves in a direction."""

    schema = (
        "_grid_sampler_along(Tensor input, Tensor grid, Tensor direction, int interpolation_mode, int padding_mode,"
        " bool align_corners) -> Tensor"
    )

    def vjp(self, g):
        return no_third_gradient()


class GridSamplerImage(GridOp):
    """The gradient for the image: every sample's gradient added to the corners it mixed."""

    schema = (
        "_grid_sampler_image(Tensor g, Tensor grid, int[] sizes, int interpolation_mode, int padding_mode, bool"
        " align_corners) -> Tensor"
    )

    def vjp(self, gg, g, grid, interpolation_mode, padding_mode, align_corners):
        rest = (interpolation_mode, padding_mode, align_corners)
        sampled = find_op("grid_sampler_2d" if gg.ndim == 4 else "grid_sampler_3d")(gg, grid, *rest)
        return {"g": sampled, "grid": find_op("_grid_sampler_grid")(g, gg, grid, *rest)}

    def meta(self, g, *rest):
        return Spec((*g.shape[:2], *rest[-4]), g.dtype)

    def launches(self, args):
        g, grid, *direction, sizes, mode, padding, corners = args
        form = Form(len(sizes), mode, padding, corners, bool(direction), wide=g.device.type != "cpu")
        n, channels, *out = g.shape
        if g.device.type != "cpu" and g.dtype.code in ATOMIC and not are_deterministic_algorithms_enabled():
            key, last = ("scattered", form, g.dtype.code), 2 + form.directed
            adding = Launch(key, lambda: scattering_nest(*key[1:]), tuple(range(last + 1)),
                            (channels, product(out), *sizes), n * product(out), 1)
            return Schedule((clear_launch(g.dtype.code, (n, channels, *sizes), last), adding))
        blocks = -(-channels // BLOCK)
        (length, lines), count = lines_of(product(out), g.device), corner_count(form)
        rows_ = [("i64", count * length), (compute_code(g.dtype.code), count * length)]
        params = [channels, product(out), *sizes, length, lines, blocks]
        return self.launch(form, (g, grid, *direction), params, n * blocks, GRAIN, rows_)

    def build(self, form, code, apart):
        names, compute, target = Names(form), compute_code(code), 2 + form.directed
        chunk = idiv(var("i" if apart else "begin"), var("grain")) * (const(names.count, "i64") * names.length)
        body: list[Statement] = [
            Local("batch", idiv(var("i"), var("blocks"))),
            Local("low", irem(var("i"), var("blocks")) * const(BLOCK, "i64")),
            Local("high", min_(var("low") + const(BLOCK, "i64"), var("channels"))), Local("own", chunk),
            Local("own.numbers", chunk),
        ]
        first = var("batch") * var("channels") + var("low")
        clear = Store(target, first * names.plane + var("z"), const(0, code))
        body.append(For("z", ZERO, (var("high") - var("low")) * names.plane, (clear,), vector=True))
        line = var("batch") * names.samples + var("first")
        fill = prepare(form, code, 1, names, target + 1, target + 2, line, slopes=False)
        plane = var("batch") * var("channels") + var("c")
        source = plane * names.samples + var("first") + var("x")
        adds: list[Statement] = [Local("g", cast(load(0, source, code), compute))]
        for k in range(names.count):
            at = f"at{k}"
            adds.append(Local(at, plane * names.plane + load(target + 1, names.scratch(k, var("x")), "i64")))
            more = cast(load(target, var(at), code), compute) + var("g", compute) * load(
                target + 2, names.scratch(k, var("x")), compute
            )
            adds.append(Store(target, var(at), cast(more, code)))
        every = For("c", var("low"), var("high"), (For("x", ZERO, names.row, tuple(adds)),))
        body.append(For("h", ZERO, var("lines"), (*names.line(var("h")), fill, every)))
        return Nest(
            "grid_sampler_image",
            operands([code] * target, [code], ["i64", compute]),
            (*names.in_lines, "blocks", "grain"),
            rows(*body),
        )


def scattering_nest(form: Form, code: str) -> Nest:
    """The same with a thread for each sample, whose gradients of all channels are added by atomic instructions."""
    names, target = Names(form), 2 + form.directed
    body = each_sample(names)
    plane = var("batch") * var("channels") + var("c")
    adds: list[Statement] = [Local("g", load(0, plane * var("samples") + var("sample"), code)),
                             Local("plane", plane * names.plane)]
    for k, (place, weight, _) in enumerate(mixed(form, code, 1, var("i"), slopes=False)):
        body += [Local(f"at{k}", place), Local(f"weight{k}", weight)]
        more = Store(target, var("plane") + var(f"at{k}"), var("g", code) * var(f"weight{k}", code), "add")
        adds.append(If(ne(var(f"weight{k}", code), const(0, code)), (more,)))
    body.append(For("c", ZERO, var("channels"), tuple(adds)))
    return Nest("grid_sampler_scatter", operands([code] * target, [code]), names.params, rows(*body, vector=True))


class GridSamplerImageAlong(GridSamplerImage):
    """How the image's gradient changes as the grid moves in a direction."""

    schema = (
        "_grid_sampler_image_along(Tensor g, Tensor grid, Tensor direction, int[] sizes, int interpolation_mode, int"
        " padding_mode, bool align_corners) -> Tensor"
    )

    def vjp(self, gg):
        return no_third_gradient()


class GridSamplerGrid(GridOp):
    """The gradient for the grid: how the samples change as the corners' weights do."""

    schema = (
        "_grid_sampler_grid(Tensor g, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool"
        " align_corners) -> Tensor"
    )

    def vjp(self, gg, g, input, grid, interpolation_mode, padding_mode, align_corners):
        rest = (interpolation_mode, padding_mode, align_corners)
        return {
            "g": find_op("_grid_sampler_along")(input, grid, gg, *rest),
            "input": find_op("_grid_sampler_image_along")(g, grid, gg, list(input.shape[2:]), *rest),
            "grid": find_op("_grid_sampler_grid_along")(g, input, grid, gg, *rest),
        }

    def meta(self, g, input, grid, *rest):
        return Spec(tuple(grid.shape), g.dtype)

    def launches(self, args):
        g, input, grid, *direction, mode, padding, corners = args
        n, channels, *space = input.shape
        form = Form(len(space), mode, padding, corners, bool(direction), wide=g.device.type != "cpu")
        samples, count = product(g.shape[2:]), corner_count(form)
        length, lines = lines_of(samples, g.device)
        compute = compute_code(g.dtype.code)
        rows_ = [("i64", count * length), (compute, count * form.count * length), (compute, form.count * length)]
        params, work = [channels, samples, *space, length, lines], length * count * channels
        return self.launch(form, (g, input, grid, *direction), params, n * lines, work, rows_)

    def build(self, form, code, apart):
        names, compute, dims = Names(form), compute_code(code), range(form.count)
        target = 3 + form.directed
        places, numbers, sums = target + 1, target + 2, target + 3
        chunk = idiv(var("i" if apart else "begin"), var("grain"))
        body: list[Statement] = [
            *names.line_of_image(),
            Local("own", chunk * (const(names.count, "i64") * names.length)),
            Local("own.numbers", var("own") * const(form.count, "i64")),
        ]
        body.append(Local("own.sums", chunk * (const(form.count, "i64") * names.length)))
        line = var("batch") * names.samples + var("first")
        body.append(prepare(form, code, 2, names, places, numbers, line, slopes=True))

        def total(d: int, at: Value) -> Value:
            return var("own.sums") + const(d, "i64") * names.length + at

        body.append(
            For(
                "z",
                ZERO,
                names.row,
                tuple(Store(sums, total(d, var("z")), const(0, compute)) for d in dims),
                vector=True,
            )
        )
        plane = var("batch") * var("channels") + var("c")
        source = plane * names.samples + var("first") + var("x")
        inner: list[Statement] = [Local("g", cast(load(0, source, code), compute))]
        for k in range(names.count):
            place = load(places, names.scratch(k, var("x")), "i64")
            inner.append(Local(f"v{k}", cast(load(1, plane * names.plane + place, code), compute)))
        for d in dims:
            change = const(0, compute)
            for k in range(names.count):
                slope = load(
                    numbers, var("own.numbers") + const(k * form.count + d, "i64") * names.length + var("x"), compute
                )
                change = change + select(eq(slope, const(0, compute)), const(0, compute), slope * var(f"v{k}", compute))
            inner.append(Local(f"sum{d}", load(sums, total(d, var("x")), compute) + var("g", compute) * change))
        inner += [Store(sums, total(d, var("x")), var(f"sum{d}", compute)) for d in dims]
        body.append(For("c", ZERO, var("channels"), (For("x", ZERO, names.row, tuple(inner), vector=True),)))
        at = (line + var("y")) * const(form.count, "i64")
        body.append(
            For(
                "y",
                ZERO,
                names.row,
                tuple(
                    Store(target, at + const(d, "i64"), cast(load(sums, total(d, var("y")), compute), code))
                    for d in dims
                ),
            )
        )
        return Nest(
            "grid_sampler_grid",
            operands([code] * target, [code], ["i64", compute, compute]),
            (*names.in_lines, "grain"),
            rows(*body),
        )


class GridSamplerGridAlong(GridSamplerGrid):
    """How the grid's gradient changes as the grid moves in a direction."""

    schema = (
        "_grid_sampler_grid_along(Tensor g, Tensor input, Tensor grid, Tensor direction, int interpolation_mode, int"
        " padding_mode, bool align_corners) -> Tensor"
    )

    def vjp(self, gg):
        return no_third_gradient()


def check_grid(name: str, input: Any, grid: Any, mode: int, padding: int, corners: bool) -> Form:
    """The form of a call; raises for tensors that do not go together."""
    count = input.ndim - 2
    if input.device != grid.device:
        raise RuntimeError(f"{name}: expected a grid on the device of input, {input.device}, got {grid.device}")
    if count not in (2, 3) or grid.ndim != input.ndim:
        raise RuntimeError(
            f"{name}: expected input and grid with 4 dimensions each or 5 each, got sizes {list(input.shape)} and"
            f" {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"{name}: expected one batch size, got an input of sizes {list(input.shape)} and a grid of"
            f" {list(grid.shape)}"
        )
    if grid.shape[-1] != count:
        raise RuntimeError(
            f"{name}: expected a grid of size {count} in the last dimension, got sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            f"{name}: expected an input with elements in its spatial dimensions, got sizes {list(input.shape)}"
        )
    if input.dtype is not grid.dtype:
        raise RuntimeError(
            f"{name}: expected input and grid to have same dtype, but input has {input.dtype.name} and grid has"
            f" {grid.dtype.name}"
        )
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype.name}')
    if mode == BICUBIC and count == 3:
        raise RuntimeError(f"{name}: bicubic interpolation only supports 4D input")
    return Form(count, mode, padding, bool(corners))
