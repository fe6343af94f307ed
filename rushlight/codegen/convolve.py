"""Convolution kernels: implicit matrix products over windows packed into scratch memory that stays in cache.

Enters: the dtype. Leaves: `Kernel`s with the usual ABI. `forward_kernel` multiplies packed weights with windows of an input,
for convolutions and (with mirrored taps) for gradients of their inputs; `weight_kernel` sums products of output gradients and
windows. Refuses nothing: the planner (op/convolve.py) hands them sizes and strides that fit.

Loop nests have no notion of a register tile or of packing, so the kernels are written as IR text (writer.py). They share one
geometry: a pixel is an index over (image, depth, row, column) of the output; window row k of a block of pixels holds, for channel
and tap k, the input element under each pixel, or zero outside the input. Pixels of one output row are a run, copied in vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from ..loops.digest import digest
from . import cache
from .cache import Kernel
from .targets import vector_bits
from .writer import ABI, Reg, Writer, declarations

GEOMETRY = (
    "outs", "taps", "rows",                       # outputs per group, taps, channels x taps per group
    "in_d", "in_h", "step_d", "step_h", "base_d", "base_h",   # input sizes; input index = pixel index * step + base + tap
    "in_image", "in_group", "in_channel", "in_depth", "in_row", "in_step", "in_base",   # strides; of a column step; of the first column
    "out_d", "out_h", "out_w", "pixels",
    "out_image", "out_group", "out_channel", "out_depth", "out_row", "out_column",
)  # fmt: skip
FORWARD = (*GEOMETRY, "block", "blocks", "panels", "cuts", "per_cut", "bias")
WEIGHT = (*GEOMETRY, "parts", "per_part", "chunks")
TAP = 5            # a tap: element offset, depth and row offsets, first and last+1 output column that it serves
NEAR = 128         # products summed one after the other; longer sums are sums of such sums, which lose fewer bits
AHEAD = 6          # window rows between asking for memory and reading it
RUN = 6            # a run: source offset, depth, row, column, length, place in the block


class Tile(NamedTuple):
    """Sizes the kernels are built around, for one dtype on one processor."""

    element: str
    size: int
    lanes: int
    rows: int          # outputs in a register tile
    vectors: int       # vectors of pixels in a register tile
    dot_rows: int      # register tile of the weight gradient: outputs, window rows
    dot_columns: int
    block: int         # pixels packed at once, at most
    depth: int         # window rows packed at once
    dot_block: int
    dot_depth: int
    dot_outs: int
    by_lane: bool      # multiply-add takes one lane of a vector as an operand

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.element}>"


SHAPES = {128: ((8, 3), (6, 4), (4, 6)), 256: ((6, 2), (4, 3), (3, 4)), 512: ((12, 2), (8, 3), (4, 6))}   # outputs x vectors of pixels


def tile_shapes() -> range:
    """Numbers of the register tiles there are for this processor, the most efficient first."""
    return range(len(SHAPES[vector_bits()]))


@functools.cache
def tile_of(code: str, shape: int = 0) -> Tile:
    """A tile for a dtype: accumulators fill most of the vector registers."""
    element, size = {"f32": ("float", 4), "f64": ("double", 8)}[code]
    bits = vector_bits()
    lanes = bits // 8 // size
    rows, vectors = SHAPES[bits][shape]
    dots = (3, 4) if bits == 256 else (6, 4)
    columns = vectors * lanes
    return Tile(element, size, lanes, rows, vectors, *dots, 768 // size // columns * columns, 256, 1024 // size, 96, 66, bits == 128)


class Text(NamedTuple):
    """What the kernel cache asks of a nest: a name, parameters and a digest. The text is written when it is compiled."""

    name: str
    params: tuple[str, ...]
    tile: Tile
    make: Callable[[Tile], str]

    def digest(self) -> bytes:
        """The name and the tile; the cache's key holds the generator's sources besides."""
        return digest(repr((self.name, self.params, tuple(self.tile))).encode())


def _object(kernel: Text) -> bytes:
    from .cpu import compile_ir, host_target

    return compile_ir(f'target triple = "{host_target().triple}"\n{kernel.make(kernel.tile)}', host_target(), "object")


@functools.cache
def forward_kernel(code: str, shape: int) -> Kernel:
    """Operands: input, packed weights, bias, taps, result; parameters `FORWARD`; items (group, cut of outputs, block of pixels)."""
    return make_kernel("conv_forward", FORWARD, code, forward_text, shape)


@functools.cache
def weight_kernel(code: str) -> Kernel:
    """Operands: output gradient, input, taps, result [group, part, outs, rows]; parameters `WEIGHT`; items (group, part, chunk of rows)."""
    return make_kernel("conv_weight", WEIGHT, code, weight_text)


def make_kernel(name: str, params: tuple[str, ...], code: str, make: Callable[[Tile], str], shape: int = 0) -> Kernel:
    """The kernel called `name`, from the text that `make` writes for one of this processor's tiles."""
    return cache.kernel(Text(name, params, tile_of(code, shape), make), _object)


def load_params(w: Writer, names: tuple[str, ...], wanted: tuple[str, ...] | None = None) -> None:
    """Read parameters into `w[name]`: all of them, or those wanted."""
    for k, name in enumerate(names):
        if wanted is None or name in wanted:
            w[name] = w.load("i64", w.at(w["params"], k, "i64"), 8)


def load_pointers(w: Writer, *names: str) -> None:
    """Read the operands' addresses into `w[name]`."""
    for k, name in enumerate(names):
        w[name] = w.load("ptr", w.at(w["ptrs"], k, "ptr"), 8)


# --- packing ------------------------------------------------------------------------------------------------------------


def find_runs(w: Writer, runs: Reg, offsets: Reg, first: Reg, count: Reg) -> Reg:
    """Write the runs of pixels [first, first + count), and every pixel's offset in the output; returns how many runs."""
    row0 = w.div(first, w["out_w"])
    past = w.add(first, count)
    number = w.add(w.sub(w.div(w.sub(past, 1), w["out_w"]), row0), 1)
    with w.loop(0, number) as r:
        row = w.add(row0, r.i)
        begin = w.max(w.mul(row, w["out_w"]), first)
        length = w.sub(w.min(w.mul(w.add(row, 1), w["out_w"]), past), begin)
        column = w.sub(begin, w.mul(row, w["out_w"]))
        y, slab = w.rem(row, w["out_h"]), w.div(row, w["out_h"])
        z, image = w.rem(slab, w["out_d"]), w.div(slab, w["out_d"])
        in_z, in_y = w.add(w.mul(z, w["step_d"]), w["base_d"]), w.add(w.mul(y, w["step_h"]), w["base_h"])
        source = w.total(
            w.mul(image, w["in_image"]), w.mul(in_z, w["in_depth"]), w.mul(in_y, w["in_row"]), w["in_base"], w.mul(column, w["in_step"])
        )
        place = w.sub(begin, first)
        for k, value in enumerate((source, in_z, in_y, column, length, place)):
            w.store(value, w.at(runs, w.add(w.mul(r.i, RUN), k), "i64"), 8)
        target = w.total(
            w.mul(image, w["out_image"]), w.mul(z, w["out_depth"]), w.mul(y, w["out_row"]), w.mul(column, w["out_column"])
        )
        with w.loop(0, length, carry=[target]) as j:
            w.store(j.carry[0], w.at(offsets, w.add(place, j.i), "i64"), 8)
            j.next = [w.add(j.carry[0], w["out_column"])]
    return number


def copy_row(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    """count elements, `step` apart, to `target` side by side."""
    unit = w.compare("eq", step, 1)
    wide = w.both(unit, w.compare("sge", count, tile.lanes))
    with w.when(wide):
        last = w.sub(count, tile.lanes)
        with w.loop(0, w.sub(last, 3 * tile.lanes), 4 * tile.lanes) as several:
            places = [w.add(several.i, v * tile.lanes) for v in range(4)]
            values = [w.load(tile.vector, w.at(source, place, tile.element), tile.size) for place in places]
            for value, place in zip(values, places, strict=True):
                w.store(value, w.at(target, place, tile.element), tile.size)
        with w.loop(several.i, last, tile.lanes) as j:
            w.store(w.load(tile.vector, w.at(source, j.i, tile.element), tile.size), w.at(target, j.i, tile.element), tile.size)
        # The last vector ends with the row, over what the one before it wrote.
        w.store(w.load(tile.vector, w.at(source, last, tile.element), tile.size), w.at(target, last, tile.element), tile.size)
    other = w.negate(wide)
    for apart in (2, 4):   # a vector of neighbours holds every second or fourth of them
        chosen = w.compare("eq", step, apart)
        with w.when(chosen):
            # Not for the last elements: the vector would reach past them, perhaps out of memory.
            with w.loop(0, w.sub(count, tile.lanes), tile.lanes) as j:
                near = w.load(f"<{apart * tile.lanes} x {tile.element}>", w.at(source, w.mul(j.i, apart), tile.element), tile.size)
                w.store(w.every(near, apart, tile.lanes), w.at(target, j.i, tile.element), tile.size)
            copy_elements(w, tile, target, source, j.i, count, step)
        other = w.both(other, w.negate(chosen))
    with w.when(other):
        copy_elements(w, tile, target, source, Reg("0", "i64"), count, step)


def copy_elements(w: Writer, tile: Tile, target: Reg, source: Reg, begin: Reg, end: Reg, step: Reg) -> None:
    """Elements [begin, end) of a row, one by one."""
    with w.loop(begin, end, carry=[w.at(source, w.mul(begin, step), tile.element)]) as j:
        w.store(w.load(tile.element, j.carry[0], tile.size), w.at(target, j.i, tile.element), tile.size)
        j.next = [w.at(j.carry[0], step, tile.element)]


def fill_zeros(w: Writer, tile: Tile, target: Reg, begin: Reg, end: Reg) -> None:
    """Zeros in [begin, end), and up to a vector less one past it."""
    with w.loop(begin, end, tile.lanes) as j:
        w.store(Reg("zeroinitializer", tile.vector), w.at(target, j.i, tile.element), tile.size)


def pack_text(tile: Tile, stride: int) -> str:
    """pack(target, runs, how many, input, taps, first row, rows): window rows of a block, `stride` elements apart.

    Rows are written run by run from left to right, so a run may spill over the start of the next, and the last one into the
    slack that ends a row.
    """
    w = Writer("pack", [("ptr", "target"), ("ptr", "runs"), ("i64", "number"), ("ptr", "input"), ("ptr", "table"), ("i64", "first"), ("i64", "count"), ("ptr", "params")], "internal ")
    load_params(w, GEOMETRY, ("taps", "in_d", "in_h", "in_channel", "in_step"))
    lonely = w.both(w.compare("eq", w["taps"], 1), w.compare("eq", w["in_step"], 1))
    source0 = w.at(w["input"], w.mul(w.div(w["first"], w["taps"]), w["in_channel"]), tile.element)
    with w.loop(0, w["count"], carry=[w.rem(w["first"], w["taps"]), source0]) as k:
        tap, channel = k.carry
        entry = w.at(w["table"], w.mul(tap, TAP), "i64")
        offset, dz, dy, low, high = (w.load("i64", w.at(entry, n, "i64"), 8) for n in range(TAP))
        base = w.at(channel, offset, tile.element)
        row = w.at(w["target"], w.mul(k.i, stride), tile.element)
        with w.loop(0, w["number"]) as r:
            run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
            source, z, y, column, length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in range(RUN))
            inside = w.both(w.compare("ult", w.add(z, dz), w["in_d"]), w.compare("ult", w.add(y, dy), w["in_h"]))
            left = w.min(w.max(w.sub(low, column), 0), length)
            right = w.max(w.min(w.sub(high, column), length), left)
            left, right = w.select(inside, left, length), w.select(inside, right, length)
            to = w.at(row, place, tile.element)
            fill_zeros(w, tile, to, Reg("0", "i64"), left)
            begin = w.at(base, w.add(source, w.mul(left, w["in_step"])), tile.element)
            with w.when(lonely):   # every row comes from memory of its own: ask for those to come
                ahead = w.at(begin, w.mul(w["in_channel"], AHEAD), tile.element)
                with w.loop(0, length, 64 // tile.size) as line:
                    w.prefetch(w.at(ahead, line.i, tile.element))
            copy_row(w, tile, w.at(to, left, tile.element), begin, w.sub(right, left), w["in_step"])
            fill_zeros(w, tile, to, right, length)
        wraps = w.compare("eq", w.add(tap, 1), w["taps"])
        following = w.at(channel, w.select(wraps, w["in_channel"], 0), tile.element)
        k.next = [w.select(wraps, 0, w.add(tap, 1)), following]
    return w.text()


# --- forward ------------------------------------------------------------------------------------------------------------

ZERO, BIAS, ADD = 0, 1, 2     # what a tile starts from: nothing, the bias, what is there


def multiply_text(tile: Tile, stride: int) -> str:
    """multiply(weights, windows, depth, result, row stride, bias, start): one register tile of outputs x pixels."""
    w = Writer("multiply", [("ptr", "a"), ("ptr", "b"), ("i64", "depth"), ("ptr", "c"), ("i64", "row"), ("ptr", "bias"), ("i64", "start")], "internal ")
    zero = Reg("zeroinitializer", tile.vector)
    with w.loop(0, w["depth"], carry=[w["a"], w["b"], *[zero] * (tile.rows * tile.vectors)]) as k:
        a, b, *sums = k.carry
        columns = [w.load(tile.vector, w.at(b, v * tile.lanes, tile.element), tile.size) for v in range(tile.vectors)]
        made = []
        for factor, r in zip(weight_factors(w, tile, a), range(tile.rows), strict=True):
            made += [w.fma(columns[v], factor, sums[r * tile.vectors + v]) for v in range(tile.vectors)]
        k.next = [w.at(a, tile.rows, tile.element), w.at(b, stride, tile.element), *made]
    sums = k.carry[2:]
    places = []
    for r in range(tile.rows):
        row = w.at(w["c"], w.mul(w["row"], r), tile.element)
        places += [w.at(row, v * tile.lanes, tile.element) for v in range(tile.vectors)]
    with w.when(w.compare("eq", w["start"], ZERO)):
        for value, place in zip(sums, places, strict=True):
            w.store(value, place, tile.size)
    with w.when(w.compare("eq", w["start"], BIAS)):
        for r in range(tile.rows):
            bias = w.splat(w.load(tile.element, w.at(w["bias"], r, tile.element), tile.size), tile.lanes)
            for n in range(r * tile.vectors, (r + 1) * tile.vectors):
                w.store(w.fadd(sums[n], bias), places[n], tile.size)
    with w.when(w.compare("eq", w["start"], ADD)):
        for value, place in zip(sums, places, strict=True):
            w.store(w.fadd(value, w.load(tile.vector, place, tile.size)), place, tile.size)
    return w.text()


def weight_factors(w: Writer, tile: Tile, a: Reg):
    """The tile's weights of one window row, each as a vector of copies; loaded one vector at a time where lanes can be operands."""
    if not tile.by_lane:
        for r in range(tile.rows):
            yield w.splat(w.load(tile.element, w.at(a, r, tile.element), tile.size), tile.lanes)
        return
    for r in range(0, tile.rows, tile.lanes):
        first = min(r, tile.rows - tile.lanes)   # the last vector may overlap the one before
        several = w.load(tile.vector, w.at(a, first, tile.element), tile.size)
        for lane in range(r - first, tile.lanes):
            yield w.lane(several, lane, tile.lanes)


def forward_text(tile: Tile) -> str:
    """The kernel: per item, pack a block's windows and multiply every panel of weights with them, a slice of rows at a time."""
    stride = tile.block + tile.lanes
    w = Writer("conv_forward", ABI)
    windows = w.scratch(tile.element, tile.depth * stride)
    runs, offsets = w.scratch("i64", RUN * tile.block), w.scratch("i64", tile.block)
    edge = w.scratch(tile.element, tile.rows * tile.columns)
    load_params(w, FORWARD)
    load_pointers(w, "input", "weights", "bias_data", "table", "result")
    with w.loop(w["begin"], w["end"]) as item:
        block, above = w.rem(item.i, w["blocks"]), w.div(item.i, w["blocks"])
        cut, group = w.rem(above, w["cuts"]), w.div(above, w["cuts"])
        first = w.mul(block, w["block"])
        count = w.min(w.sub(w["pixels"], first), w["block"])
        number = find_runs(w, runs, offsets, first, count)
        source = w.at(w["input"], w.mul(group, w["in_group"]), tile.element)
        target = w.at(w["result"], w.mul(group, w["out_group"]), tile.element)
        bias = w.at(w["bias_data"], w.mul(group, w["outs"]), tile.element)
        weights = w.at(w["weights"], w.mul(w.mul(group, w["panels"]), w.mul(w["rows"], tile.rows)), tile.element)
        panel0 = w.mul(cut, w["per_cut"])
        panels = w.min(w.add(panel0, w["per_cut"]), w["panels"])
        with w.loop(0, w["rows"], tile.depth) as slice_:
            depth = w.min(w.sub(w["rows"], slice_.i), tile.depth)
            w.call("pack", windows, runs, number, source, w["table"], slice_.i, depth, w["params"])
            start = w.select(w.compare("eq", slice_.i, 0), w["bias"], ADD)
            with w.loop(0, count, tile.columns) as c:
                with w.loop(panel0, panels) as p:
                    packed = w.at(weights, w.mul(w.add(w.mul(p.i, w["rows"]), slice_.i), tile.rows), tile.element)
                    one_tile(w, tile, windows, packed, depth, offsets, edge, target, bias, start, c.i, p.i, count)
    parts = [w.text(), pack_text(tile, stride), multiply_text(tile, stride), declarations(tile.lanes, tile.element)]
    return "\n".join(parts)


def multiply_parts(w: Writer, tile: Tile, packed: Reg, window: Reg, depth: Reg, target: Reg, row: Reg, bias: Reg, start: Reg) -> None:
    """Calls of `multiply` for NEAR window rows at a time."""
    with w.loop(0, depth, NEAR) as k:
        left, right = w.at(packed, w.mul(k.i, tile.rows), tile.element), w.at(window, w.mul(k.i, tile.block + tile.lanes), tile.element)
        begin = w.select(w.compare("eq", k.i, 0), start, ADD)
        w.call("multiply", left, right, w.min(w.sub(depth, k.i), NEAR), target, row, bias, begin)


def one_tile(
    w: Writer, tile: Tile, windows: Reg, packed: Reg, depth: Reg, offsets: Reg, edge: Reg, target: Reg, bias: Reg, start: Reg, column: Reg, panel: Reg, count: Reg
) -> None:
    """Multiply one tile straight into the result where it is whole and its pixels are neighbours, else through `edge`."""
    row0 = w.mul(panel, tile.rows)
    window = w.at(windows, column, tile.element)
    own_bias = w.at(bias, row0, tile.element)
    out = w.at(target, w.mul(row0, w["out_channel"]), tile.element)
    last = w.min(w.add(column, tile.columns - 1), tile.block - 1)
    here = w.load("i64", w.at(offsets, column, "i64"), 8)
    dense = w.compare("eq", w.sub(w.load("i64", w.at(offsets, last, "i64"), 8), here), tile.columns - 1)
    whole = w.both(w.compare("sle", w.add(column, tile.columns), count), w.compare("sle", w.add(row0, tile.rows), w["outs"]))
    direct = w.both(whole, dense)
    with w.when(direct):
        multiply_parts(w, tile, packed, window, depth, w.at(out, here, tile.element), w["out_channel"], own_bias, start)
    with w.when(w.negate(direct)):
        multiply_parts(w, tile, packed, window, depth, edge, Reg(str(tile.columns), "i64"), own_bias, Reg(str(ZERO), "i64"))
        adds, biased = w.compare("eq", start, ADD), w.compare("eq", start, BIAS)
        zero = Reg("0.0", tile.element)
        columns = w.min(w.sub(count, column), tile.columns)
        with w.loop(0, w.min(w.sub(w["outs"], row0), tile.rows)) as r:
            from_bias = w.load(tile.element, w.select(biased, w.at(own_bias, r.i, tile.element), edge), tile.size)
            first = w.select(biased, from_bias, zero)
            to = w.at(out, w.mul(r.i, w["out_channel"]), tile.element)
            with w.loop(0, columns) as j:
                place = w.at(to, w.load("i64", w.at(offsets, w.add(column, j.i), "i64"), 8), tile.element)
                value = w.load(tile.element, w.at(edge, w.add(w.mul(r.i, tile.columns), j.i), tile.element), tile.size)
                old = w.load(tile.element, w.select(adds, place, edge), tile.size)
                w.store(w.fadd(value, w.select(adds, old, first)), place, tile.size)


# --- gradient of the weight -----------------------------------------------------------------------------------------------

JOINED = 3         # a stretch of neighbouring pixels of the gradient: offset, length, place in the block


def dot_text(tile: Tile) -> str:
    """dot(gradients, their stride, windows, their stride, pixels, result, its stride, adds): one register tile of outputs x window rows.

    result[i, j] is gradient row i . window row j, added to what is there if `adds`.
    """
    w = Writer("dot", [("ptr", "a"), ("i64", "a_row"), ("ptr", "b"), ("i64", "b_row"), ("i64", "count"), ("ptr", "c"), ("i64", "c_row"), ("i1", "adds")], "internal ")
    zero = Reg("zeroinitializer", tile.vector)
    number = tile.dot_rows * tile.dot_columns
    rows = [w.at(w["a"], w.mul(w["a_row"], r), tile.element) for r in range(tile.dot_rows)]
    columns = [w.at(w["b"], w.mul(w["b_row"], c), tile.element) for c in range(tile.dot_columns)]
    with w.loop(0, w["count"], tile.lanes, carry=[zero] * number) as p:
        sums = p.carry
        right = [w.load(tile.vector, w.at(column, p.i, tile.element), tile.size) for column in columns]
        made = []
        for r in range(tile.dot_rows):
            left = w.load(tile.vector, w.at(rows[r], p.i, tile.element), tile.size)
            made += [w.fma(left, right[c], sums[r * tile.dot_columns + c]) for c in range(tile.dot_columns)]
        p.next = made
    whole = tile.dot_columns % tile.lanes == 0
    width = tile.lanes if whole else 1
    for r in range(tile.dot_rows):
        for c in range(0, tile.dot_columns, width):
            sums = p.carry[r * tile.dot_columns + c :][:width]
            value = w.horizontals(sums) if whole else w.horizontal(sums[0])
            place = w.at(w["c"], w.add(w.mul(w["c_row"], r), c), tile.element)
            old = w.select(w["adds"], w.load(value.type, place, tile.size), Reg("zeroinitializer" if whole else "0.0", value.type))
            w.store(w.fadd(value, old), place, tile.size)
    return w.text()


def weight_text(tile: Tile) -> str:
    """The kernel: per item, walk blocks of pixels; pack windows, then gradients a slice of outputs at a time, and add their dots."""
    stride = tile.dot_block + tile.lanes
    w = Writer("conv_weight", ABI)
    windows = w.scratch(tile.element, (tile.dot_depth + tile.dot_columns) * stride)
    gradients = w.scratch(tile.element, (tile.dot_outs + tile.dot_rows) * stride)
    runs, offsets = w.scratch("i64", RUN * tile.dot_block), w.scratch("i64", tile.dot_block)
    joined = w.scratch("i64", JOINED * tile.dot_block)
    edge = w.scratch(tile.element, tile.dot_rows * tile.dot_columns)
    load_params(w, WEIGHT)
    load_pointers(w, "gradient", "input", "table", "result")
    with w.loop(w["begin"], w["end"]) as item:
        chunk, above = w.rem(item.i, w["chunks"]), w.div(item.i, w["chunks"])
        part, group = w.rem(above, w["parts"]), w.div(above, w["parts"])
        row0 = w.mul(chunk, tile.dot_depth)
        depth = w.min(w.sub(w["rows"], row0), tile.dot_depth)
        source = w.at(w["input"], w.mul(group, w["in_group"]), tile.element)
        gradient = w.at(w["gradient"], w.mul(group, w["out_group"]), tile.element)
        result = w.at(w["result"], w.add(w.mul(above, w.mul(w["outs"], w["rows"])), row0), tile.element)
        pixel0 = w.mul(part, w["per_part"])
        pixels = w.min(w.add(pixel0, w["per_part"]), w["pixels"])
        with w.loop(pixel0, pixels, tile.dot_block) as first:
            count = w.min(w.sub(pixels, first.i), tile.dot_block)
            padded = w.mul(w.div(w.add(count, tile.lanes - 1), tile.lanes), tile.lanes)
            number = find_runs(w, runs, offsets, first.i, count)
            w.call("pack", windows, runs, number, source, w["table"], row0, depth, w["params"])
            clear_tail(w, tile, windows, Reg("0", "i64"), depth, stride, count, padded)
            stretches = join_runs(w, joined, runs, offsets, number)
            adds = w.compare("ne", first.i, pixel0)
            # Neighbouring pixels are read where they are; only rows of a tile that is not whole are packed.
            dense = w.both(w.both(w.compare("eq", stretches, 1), w.compare("eq", w["out_column"], 1)), w.compare("eq", count, padded))
            here = w.at(gradient, w.load("i64", offsets, 8), tile.element)
            with w.loop(0, w["outs"], tile.dot_outs) as slice_:
                outs = w.min(w.sub(w["outs"], slice_.i), tile.dot_outs)
                whole = w.mul(w.div(outs, tile.dot_rows), tile.dot_rows)
                read = w.select(dense, whole, 0)
                pack_gradients(w, tile, gradients, stride, gradient, joined, stretches, slice_.i, read, outs)
                clear_tail(w, tile, gradients, read, outs, stride, count, padded)
                with w.loop(0, depth, tile.dot_columns) as j, w.loop(0, outs, tile.dot_rows) as i:
                    in_place = w.compare("slt", i.i, read)
                    row = w.add(slice_.i, i.i)
                    own = w.at(here, w.mul(row, w["out_channel"]), tile.element)
                    a = w.select(in_place, own, w.at(gradients, w.mul(i.i, stride), tile.element))
                    a_row = w.select(in_place, w["out_channel"], stride)
                    b = w.at(windows, w.mul(j.i, stride), tile.element)
                    corner = w.at(result, w.add(w.mul(row, w["rows"]), j.i), tile.element)
                    fits = w.both(w.compare("sle", w.add(i.i, tile.dot_rows), outs), w.compare("sle", w.add(j.i, tile.dot_columns), depth))
                    with w.when(fits):
                        w.call("dot", a, a_row, b, stride, padded, corner, w["rows"], adds)
                    with w.when(w.negate(fits)):
                        w.call("dot", a, a_row, b, stride, padded, edge, tile.dot_columns, Reg("false", "i1"))
                        add_edge(w, tile, corner, edge, w.sub(outs, i.i), w.sub(depth, j.i), adds)
    parts = [w.text(), pack_text(tile, stride), dot_text(tile), declarations(tile.lanes, tile.element)]
    return "\n".join(parts)


def clear_tail(w: Writer, tile: Tile, rows: Reg, first: Reg, past: Reg, stride: int, begin: Reg, end: Reg) -> None:
    """Zeros in columns [begin, end) of rows [first, past), which the dots read."""
    with w.when(w.compare("slt", begin, end)), w.loop(first, past) as r:
        row = w.at(rows, w.mul(r.i, stride), tile.element)
        with w.loop(begin, end) as j:
            w.store(Reg("0.0", tile.element), w.at(row, j.i, tile.element), tile.size)


def join_runs(w: Writer, joined: Reg, runs: Reg, offsets: Reg, number: Reg) -> Reg:
    """Write the stretches of the output that runs make together; returns how many."""
    with w.loop(0, number, carry=[Reg("0", "i64")]) as r:
        run = w.at(runs, w.mul(r.i, RUN), "i64")
        length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in (4, 5))
        offset = w.load("i64", w.at(offsets, place, "i64"), 8)
        made = r.carry[0]
        before = w.at(joined, w.mul(w.max(w.sub(made, 1), 0), JOINED), "i64")
        begin, extent, start = (w.load("i64", w.at(before, n, "i64"), 8) for n in range(JOINED))
        follows = w.compare("eq", offset, w.add(begin, w.mul(extent, w["out_column"])))
        follows = w.both(follows, w.compare("sgt", made, 0))
        target = w.select(follows, before, w.at(joined, w.mul(made, JOINED), "i64"))
        for n, (old, new) in enumerate(((begin, offset), (w.add(extent, length), length), (start, place))):
            w.store(w.select(follows, old, new), w.at(target, n, "i64"), 8)
        r.next = [w.select(follows, made, w.add(made, 1))]
    return r.carry[0]


def pack_gradients(w: Writer, tile: Tile, target: Reg, stride: int, gradient: Reg, joined: Reg, stretches: Reg, first: Reg, begin: Reg, end: Reg) -> None:
    """Rows [begin, end) of output gradients, counted from `first`, over the block's pixels."""
    with w.loop(begin, end) as m:
        source = w.at(gradient, w.mul(w.add(first, m.i), w["out_channel"]), tile.element)
        row = w.at(target, w.mul(m.i, stride), tile.element)
        with w.loop(0, stretches) as r:
            stretch = w.at(joined, w.mul(r.i, JOINED), "i64")
            offset, length, place = (w.load("i64", w.at(stretch, n, "i64"), 8) for n in range(JOINED))
            copy_row(w, tile, w.at(row, place, tile.element), w.at(source, offset, tile.element), length, w["out_column"])


def add_edge(w: Writer, tile: Tile, corner: Reg, edge: Reg, outs: Reg, columns: Reg, adds: Reg) -> None:
    """Put the part of a tile that exists into the result, or add it to what is there."""
    with w.loop(0, w.min(outs, tile.dot_rows)) as r:
        row = w.at(corner, w.mul(r.i, w["rows"]), tile.element)
        with w.loop(0, w.min(columns, tile.dot_columns)) as c:
            place = w.at(row, c.i, tile.element)
            value = w.load(tile.element, w.at(edge, w.add(w.mul(r.i, tile.dot_columns), c.i), tile.element), tile.size)
            old = w.select(adds, w.load(tile.element, w.select(adds, place, edge), tile.size), Reg("0.0", tile.element))
            w.store(w.fadd(value, old), place, tile.size)
