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
import hashlib
import platform
from collections.abc import Callable
from typing import NamedTuple

from . import cache
from .cache import Kernel
from .writer import Reg, Writer, declarations

GEOMETRY = (
    "outs", "taps", "rows",                       # outputs per group, taps, channels x taps per group
    "in_d", "in_h", "step_d", "step_h", "base_d", "base_h",   # input sizes; input index = pixel index * step + base + tap
    "in_image", "in_group", "in_channel", "in_depth", "in_row", "in_step", "in_base",   # strides; of a column step; of the first column
    "out_d", "out_h", "out_w", "pixels",
    "out_image", "out_group", "out_channel", "out_depth", "out_row", "out_column",
)  # fmt: skip
FORWARD = (*GEOMETRY, "blocks", "panels", "cuts", "per_cut", "bias")
WEIGHT = (*GEOMETRY, "parts", "per_part", "chunks")
TAP = 5            # a tap: element offset, depth and row offsets, first and last+1 output column that it serves
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
    block: int         # pixels packed at once
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


@functools.cache
def vector_bits() -> int:
    """Width of this processor's vectors, found without LLVM."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return 128
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            words = file.read(8192).split(b"\n\n")[0].split()
    except OSError:
        return 256
    return 512 if b"avx512f" in words and b"avx512vl" in words else 256 if b"avx2" in words else 128


@functools.cache
def tile_of(code: str) -> Tile:
    """The tile for a dtype: accumulators fill most of the vector registers."""
    element, size = {"f32": ("float", 4), "f64": ("double", 8)}[code]
    bits = vector_bits()
    lanes = bits // 8 // size
    rows, vectors = {128: (8, 3), 256: (6, 2), 512: (12, 2)}[bits]
    dots = (3, 4) if bits == 256 else (4, 6)
    columns = vectors * lanes
    return Tile(element, size, lanes, rows, vectors, *dots, 384 // size // columns * columns, 256, 1024 // size, 96, 64, bits == 128)


class Text:
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    def __init__(self, name: str, params: tuple[str, ...], text: str) -> None:
        self.name, self.params, self.text = name, params, text

    def digest(self) -> bytes:
        return hashlib.blake2b(self.text.encode(), digest_size=16).digest()


def _object(kernel: Text) -> bytes:
    from .cpu import compile_ir, host_target

    return compile_ir(f'target triple = "{host_target().triple}"\n{kernel.text}', host_target(), "object")


@functools.cache
def forward_kernel(code: str) -> Kernel:
    """Operands: input, packed weights, bias, taps, result; parameters `FORWARD`; items (group, cut of outputs, block of pixels)."""
    return make_kernel("conv_forward", FORWARD, code, forward_text)


@functools.cache
def weight_kernel(code: str) -> Kernel:
    """Operands: output gradient, input, taps, result [part, outs, rows]; parameters `WEIGHT`; items (part, group, chunk of rows)."""
    return make_kernel("conv_weight", WEIGHT, code, weight_text)


def make_kernel(name: str, params: tuple[str, ...], code: str, make: Callable[[Tile], str]) -> Kernel:
    """The kernel called `name`, from the text that `make` writes for this processor's tile."""
    return cache.kernel(Text(name, params, make(tile_of(code))), _object)


ABI = [("ptr", "ptrs"), ("ptr", "params"), ("i64", "begin"), ("i64", "end")]


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
    with w.when(w.negate(wide)):
        with w.loop(0, count, carry=[source]) as j:
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
        several = w.load(tile.vector, w.at(a, r, tile.element), tile.size)
        for lane in range(tile.lanes):
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
        first = w.mul(block, tile.block)
        count = w.min(w.sub(w["pixels"], first), tile.block)
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
        w.call("multiply", packed, window, depth, w.at(out, here, tile.element), w["out_channel"], own_bias, start)
    with w.when(w.negate(direct)):
        w.call("multiply", packed, window, depth, edge, tile.columns, own_bias, ZERO)
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


def dot_text(tile: Tile, stride: int) -> str:
    """dot(gradients, windows, pixels, sums): sums[i, j] = gradient row i . window row j, for one register tile."""
    w = Writer("dot", [("ptr", "a"), ("ptr", "b"), ("i64", "count"), ("ptr", "sums")], "internal ")
    zero = Reg("zeroinitializer", tile.vector)
    count = tile.dot_rows * tile.dot_columns
    with w.loop(0, w["count"], tile.lanes, carry=[w["a"], w["b"], *[zero] * count]) as p:
        a, b, *sums = p.carry
        left = [w.load(tile.vector, w.at(a, r * stride, tile.element), tile.size) for r in range(tile.dot_rows)]
        made = list(sums)
        for c in range(tile.dot_columns):
            right = w.load(tile.vector, w.at(b, c * stride, tile.element), tile.size)
            for r in range(tile.dot_rows):
                n = r * tile.dot_columns + c
                made[n] = w.fma(left[r], right, sums[n])
        p.next = [w.at(a, tile.lanes, tile.element), w.at(b, tile.lanes, tile.element), *made]
    for n, value in enumerate(p.carry[2:]):
        w.store(w.horizontal(value), w.at(w["sums"], n, tile.element), tile.size)
    return w.text()


def weight_text(tile: Tile) -> str:
    """The kernel: per item, walk blocks of pixels; pack windows, then gradients a slice of outputs at a time, and add their dots."""
    stride = tile.dot_block + tile.lanes
    w = Writer("conv_weight", ABI)
    windows = w.scratch(tile.element, (tile.dot_depth + tile.dot_columns) * stride)
    gradients = w.scratch(tile.element, (tile.dot_outs + tile.dot_rows) * stride)
    runs, offsets = w.scratch("i64", RUN * tile.dot_block), w.scratch("i64", tile.dot_block)
    sums = w.scratch(tile.element, tile.dot_rows * tile.dot_columns)
    load_params(w, WEIGHT)
    load_pointers(w, "gradient", "input", "table", "result")
    with w.loop(w["begin"], w["end"]) as item:
        chunk, above = w.rem(item.i, w["chunks"]), w.div(item.i, w["chunks"])
        part = w.rem(above, w["parts"])
        group = w.div(above, w["parts"])
        row0 = w.mul(chunk, tile.dot_depth)
        depth = w.min(w.sub(w["rows"], row0), tile.dot_depth)
        source = w.at(w["input"], w.mul(group, w["in_group"]), tile.element)
        gradient = w.at(w["gradient"], w.mul(group, w["out_group"]), tile.element)
        size = w.mul(w["outs"], w["rows"])
        result = w.at(w["result"], w.mul(above, size), tile.element)
        pixel0 = w.mul(part, w["per_part"])
        pixels = w.min(w.add(pixel0, w["per_part"]), w["pixels"])
        with w.loop(pixel0, pixels, tile.dot_block) as first:
            count = w.min(w.sub(pixels, first.i), tile.dot_block)
            padded = w.mul(w.div(w.add(count, tile.lanes - 1), tile.lanes), tile.lanes)
            number = find_runs(w, runs, offsets, first.i, count)
            w.call("pack", windows, runs, number, source, w["table"], row0, depth, w["params"])
            clear_tail(w, tile, windows, depth, stride, count, padded)
            begins = w.compare("eq", first.i, pixel0)
            with w.loop(0, w["outs"], tile.dot_outs) as slice_:
                outs = w.min(w.sub(w["outs"], slice_.i), tile.dot_outs)
                pack_gradients(w, tile, gradients, stride, gradient, runs, offsets, number, slice_.i, outs)
                clear_tail(w, tile, gradients, outs, stride, count, padded)
                with w.loop(0, depth, tile.dot_columns) as j:
                    with w.loop(0, outs, tile.dot_rows) as i:
                        w.call("dot", w.at(gradients, w.mul(i.i, stride), tile.element), w.at(windows, w.mul(j.i, stride), tile.element), padded, sums)
                        corner = w.at(result, w.total(w.mul(w.add(slice_.i, i.i), w["rows"]), row0, j.i), tile.element)
                        add_sums(w, tile, corner, sums, w.sub(outs, i.i), w.sub(depth, j.i), begins)
    parts = [w.text(), pack_text(tile, stride), dot_text(tile, stride), declarations(tile.lanes, tile.element)]
    return "\n".join(parts)


def clear_tail(w: Writer, tile: Tile, rows: Reg, count: Reg, stride: int, begin: Reg, end: Reg) -> None:
    """Zeros in columns [begin, end) of every row, which the dots read."""
    with w.when(w.compare("slt", begin, end)), w.loop(0, count) as r:
        row = w.at(rows, w.mul(r.i, stride), tile.element)
        with w.loop(begin, end) as j:
            w.store(Reg("0.0", tile.element), w.at(row, j.i, tile.element), tile.size)


def pack_gradients(w: Writer, tile: Tile, target: Reg, stride: int, gradient: Reg, runs: Reg, offsets: Reg, number: Reg, first: Reg, count: Reg) -> None:
    """Rows of output gradients over the block's pixels."""
    with w.loop(0, count) as m:
        source = w.at(gradient, w.mul(w.add(first, m.i), w["out_channel"]), tile.element)
        row = w.at(target, w.mul(m.i, stride), tile.element)
        with w.loop(0, number) as r:
            run = w.at(runs, w.mul(r.i, RUN), "i64")
            length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in (4, 5))
            begin = w.at(source, w.load("i64", w.at(offsets, place, "i64"), 8), tile.element)
            copy_row(w, tile, w.at(row, place, tile.element), begin, length, w["out_column"])


def add_sums(w: Writer, tile: Tile, corner: Reg, sums: Reg, outs: Reg, columns: Reg, begins: Reg) -> None:
    """Put a tile's sums into the result, or add them to it once it has begun."""
    with w.loop(0, w.min(outs, tile.dot_rows)) as r:
        row = w.at(corner, w.mul(r.i, w["rows"]), tile.element)
        with w.loop(0, w.min(columns, tile.dot_columns)) as c:
            place = w.at(row, c.i, tile.element)
            value = w.load(tile.element, w.at(sums, w.add(w.mul(r.i, tile.dot_columns), c.i), tile.element), tile.size)
            old = w.select(begins, Reg("0.0", tile.element), w.load(tile.element, w.select(begins, sums, place), tile.size))
            w.store(w.fadd(value, old), place, tile.size)
