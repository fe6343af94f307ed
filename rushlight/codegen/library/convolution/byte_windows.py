"""Convolutions of bytes: windows of unsigned activations as rows, packed signed weights as columns, and requantizing.

Enters: activations and results whose channels lie last and densely, weights packed by the planner
(planners/convolutions/bytes.py), and what byte_finish.py reads. Leaves: kernels with the usual ABI. Refuses nothing.

The window of a result pixel is a row of `k` bytes: taps in order, the channels of each. Rows of a few tiles of pixels
are copied side by side (padding is the zero point), then every strip of weights meets them while they are in a cache.
Windows of single pixels are rows already, and are read where they lie (`in_place`). Groups read their own channels of
each tap.
"""

from __future__ import annotations

import functools

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Number, Reg, Writer, as_reg
from ...tiles.tiles import argument, bytes_after
from ..products import byte_forms
from ..products.byte_forms import ByteForm
from .byte_finish import QUAD, Finish, bytes_of, has_packs, packs_declared

DECLARED = (
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
)
SHORT, LONG = 32, 64     # bytes of windows that are copied at a time, where there are few and where there are many
TOGETHER = 4             # steps of k that are written out
SIDE = 3                 # rows that one pointer serves: it, and one and two pitches after it
DIMS = "dhw"
GEOMETRY = tuple(f"{what}_{d}" for what in ("size", "out", "kernel", "stride", "padding", "dilation") for d in DIMS)
PARAMS = (
    *GEOMETRY,
    "pixels",        # of the result, of all images
    "channels",      # of a group
    "pixel",         # bytes between pixels of the input
    "runs",          # parts of a window that a group's channels lie together in: its taps, or one for a single group
    "deep",          # steps of k in a part
    "next",          # bytes from one part's end to the next
    "pitch",         # bytes between packed windows
    "area",          # bytes of packed windows of an item
    "outs",          # of a group
    "row",           # channels of the result
    "padded",        # columns of a group, with those that fill its last vector
    "apart",         # of all groups, the same way
    "strips",        # of a group
    "group_bytes",   # of a group's packed weights
    "tiles",         # of pixels, packed at a time
    "block",         # tiles of an item
    "blocks",
    "part",          # strips of an item, of all groups
    "parts",
    "in_place",      # windows are rows of the input
)
OPERANDS = ("source", "weights", "columns", "head", "scratch", "result", "other")
TILE = (
    ("ptr", "a"), ("i64", "pitch"), ("ptr", "b"), ("i64", "runs"), ("i64", "deep"), ("i64", "next"),
    ("ptr", "columns"), ("i64", "apart"),
    ("ptr", "head"), ("ptr", "other"), ("ptr", "c"), ("i64", "row"), ("i64", "rows"), ("i64", "wanted"),
)


class ByteWindows(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest. `finish`: see byte_finish.py."""

    name: str
    params: tuple[str, ...]
    form: ByteForm
    finish: str

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def windows_kernel(form: ByteForm, finish: str) -> Kernel:
    """Operands: activations, weights, columns, head, packed windows (scratch), result, what is added (or anything).
    The parallel range is groups, blocks of tiles, parts of strips; each has scratch memory of its own."""
    return cache.kernel(ByteWindows("byte_windows", PARAMS, form, finish), _object)


def _object(kernel: ByteWindows) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    host = host_target()
    if kernel.form.feature:        # LLVM knows it of processors that it has a name for
        host = host.but(features=f"{host.features},+{kernel.form.feature}".lstrip(","))
    return compile_ir(module_text(kernel, host.triple), host, "object", as_written=True)


def module_text(kernel: ByteWindows, triple: str) -> str:
    """LLVM IR of the kernel."""
    tiles = [tile_text(kernel, form) for form in strip_forms(kernel.form)]
    declared = kernel.form.declared() + packs_declared(kernel.form) + DECLARED
    return f'target triple = "{triple}"\n' + declared + "\n".join([*tiles, windows_text(kernel)])


def strip_forms(form: ByteForm) -> list[ByteForm]:
    """Strips of all widths, the widest last: only the last of a group is narrower."""
    if form.is_square:
        return [form]
    return [form.but(vectors=v) for v in range(1, form.vectors + 1)]


# --- the walk ---------------------------------------------------------------------------------------------------------


def windows_text(kernel: ByteWindows) -> str:
    """Items of tiles, a few of which are packed at a time; then strips meet tiles."""
    w = Writer("byte_windows", ABI)
    for k, name in enumerate(OPERANDS):
        w[name] = argument(w, "ptrs", k, "ptr")
    for k, name in enumerate(PARAMS):
        w[name] = argument(w, "params", k)
    height = kernel.form.height
    all_tiles = w.div(w.add(w["pixels"], height - 1), height)
    with w.loop(w["begin"], w["end"]) as item:
        part, block = w.rem(item.i, w["parts"]), w.div(item.i, w["parts"])
        scratch = bytes_after(w, w["scratch"], w.mul(item.i, w["area"]))
        first = w.mul(block, w["block"])
        last = w.min(w.add(first, w["block"]), all_tiles)
        strips = w.mul(part, w["part"]), w.mul(w.add(part, 1), w["part"])
        with w.loop(first, last, w["tiles"]) as tile:
            count, pixel = w.min(w.sub(last, tile.i), w["tiles"]), w.mul(tile.i, height)
            pixels = w.min(w.mul(count, height), w.sub(w["pixels"], pixel))
            # tiles of which rows are missing are packed always: nothing past the input is read
            is_whole = w.compare("eq", pixels, w.mul(count, height))
            in_place = w.both(w.compare("ne", w["in_place"], 0), is_whole)
            with w.when(w.negate(in_place)):
                pack_windows(w, kernel.form, scratch, pixel, pixels)
            rows = w.select(in_place, bytes_after(w, w["source"], w.mul(pixel, w["pixel"])), scratch)
            pitch = w.select(in_place, w["pixel"], w["pitch"])
            multiply_tiles(w, kernel, strips, rows, pitch, tile.i, count)
    return w.text()


def multiply_tiles(
    w: Writer, kernel: ByteWindows, strips: tuple[Reg, Reg], rows: Reg, pitch: Reg, first: Reg, count: Reg
) -> None:
    """Strips meet `count` tiles, whose windows begin at `rows`."""
    form, size = kernel.form, bytes_of(kernel.finish)
    height, forms = form.height, strip_forms(form)
    strip = w.mul(w.mul(w["runs"], w["deep"]), form.width * form.group)
    stop = w.min(strips[1], w.mul(w["strips"], w.div(w["apart"], w["padded"])))
    with w.loop(strips[0], stop) as j:
        group = w.div(j.i, w["strips"])
        column = w.mul(w.rem(j.i, w["strips"]), form.width)
        place = w.add(w.mul(group, w["group_bytes"]), w.mul(w.rem(j.i, w["strips"]), strip))
        weights, windows = bytes_after(w, w["weights"], place), bytes_after(w, rows, w.mul(group, w["channels"]))
        columns = w.at(w["columns"], w.add(w.mul(group, w["padded"]), column), "i32")
        present = w.sub(w["padded"], column)
        with w.loop(0, count) as t:
            pixel = w.mul(w.add(first, t.i), height)
            out = w.total(w.mul(pixel, w["row"]), w.mul(group, w["outs"]), column)
            given = [
                bytes_after(w, windows, w.mul(w.mul(t.i, height), pitch)), pitch, weights, w["runs"], w["deep"],
                w["next"], columns, w["apart"], w["head"], bytes_after(w, w["other"], out),
                bytes_after(w, w["result"], w.mul(out, size)), w["row"], w.sub(w["pixels"], pixel),
                w.sub(w["outs"], column),
            ]
            for some in forms:
                with w.when(w.compare("sge" if some is forms[-1] else "eq", present, some.width)):
                    w.call(f"tile_{some.vectors}", *given)


# --- windows as rows --------------------------------------------------------------------------------------------------


def pack_windows(w: Writer, form: ByteForm, target: Reg, first: Reg, count: Reg) -> None:
    """The windows of `count` pixels from `first` on: stretches of pixels in one row of the result after another."""
    at, places = first, []
    for d in reversed(DIMS):
        places.insert(0, w.rem(at, w[f"out_{d}"]))
        at = w.div(at, w[f"out_{d}"])
    image = w.mul(functools.reduce(w.mul, [w[f"size_{d}"] for d in DIMS]), w["pixel"])
    images = w.div(w["pixels"], functools.reduce(w.mul, [w[f"out_{d}"] for d in DIMS]))
    stretch = Stretch(w, bytes_after(w, w["source"], w.mul(images, image)))
    start = bytes_after(w, w["source"], w.mul(at, image))
    rows = w.add(w.div(w.sub(w.add(places[2], count), 1), w["out_w"]), 1)
    with w.loop(0, rows, carry=[Reg("0", "i64"), start, *places]) as r:
        done, base, z, y, x = r.carry
        length = w.min(w.sub(count, done), w.sub(w["out_w"], x))
        stretch.pack(base, (z, y, x), length, bytes_after(w, target, w.mul(done, w["pitch"])))
        r.next = [w.add(done, length), *next_row(w, base, z, y, w.add(x, length), image)]
    if form.signed:
        flip_rows(w, target, w.mul(count, w["pitch"]))


def next_row(w: Writer, base: Reg, z: Reg, y: Reg, x: Reg, image: Reg) -> list[Reg]:
    """Where a pixel is that may lie past its row: in the next one, of the next plane or image where that ends."""
    moved, position = [], (z, y, x)
    step: Number = 0
    for d, at in reversed(list(zip(DIMS, position, strict=True))):
        after = w.add(at, step)
        ends = w.compare("sge", after, w[f"out_{d}"])
        moved.insert(0, w.select(ends, 0, after))
        step = w.new("i64", f"zext {ends} to i64")
    return [bytes_after(w, base, w.mul(image, step)), *moved]


class Stretch:
    """Pixels of one row of the result, as windows: a row of the kernel at a time, of all of them.

    Where a whole row of taps is inside, its bytes are one run, copied in vectors: what follows the run is overwritten
    by the next row of taps, or lies between windows. `end`: of the input, which no vector may pass.
    """

    def __init__(self, w: Writer, end: Reg) -> None:
        self.w, self.end = w, end
        self.zero = w.new("i8", f"trunc {w.load('i32', w['head'], 4)} to i8")
        self.run = w.mul(w["kernel_w"], w["pixel"])
        self.step = w.mul(w["stride_w"], w["pixel"])
        reach = w.mul(w.sub(w["kernel_w"], 1), w["dilation_w"])
        # pixels [low, high) of a row have all their taps inside
        self.low = w.div(w.sub(w.add(w["padding_w"], w["stride_w"]), 1), w["stride_w"])
        room = w.sub(w.add(w["size_w"], w["padding_w"]), w.add(reach, 1))
        high = w.select(w.compare("slt", room, 0), 0, w.add(w.div(w.max(room, 0), w["stride_w"]), 1))
        self.high = w.select(w.compare("eq", w["dilation_w"], 1), high, 0)

    def pack(self, base: Reg, position: tuple[Reg, Reg, Reg], length: Reg, target: Reg) -> None:
        """Windows of `length` pixels from `position` on."""
        w, (z, y, x) = self.w, position
        stop = w.add(x, length)
        low = w.min(w.max(self.low, x), stop)
        high = w.max(w.min(self.high, stop), low)
        first_z = w.sub(w.mul(z, w["stride_d"]), w["padding_d"])
        first_y = w.sub(w.mul(y, w["stride_h"]), w["padding_h"])
        with w.loop(0, w["kernel_d"]) as i, w.loop(0, w["kernel_h"]) as j:
            row_z, row_y = w.add(first_z, w.mul(i.i, w["dilation_d"])), w.add(first_y, w.mul(j.i, w["dilation_h"]))
            is_row = w.both(w.compare("ult", row_z, w["size_d"]), w.compare("ult", row_y, w["size_h"]))
            line = w.mul(w.mul(w.add(w.mul(row_z, w["size_h"]), row_y), w["size_w"]), w["pixel"])
            row = bytes_after(w, base, line)
            place = bytes_after(w, target, w.mul(w.add(w.mul(i.i, w["kernel_h"]), j.i), self.run))
            with w.when(is_row):
                for begin, end in ((x, low), (high, stop)):
                    with w.loop(begin, end) as at:
                        self.edge(row, at.i, bytes_after(w, place, w.mul(w.sub(at.i, x), w["pitch"])))
                with w.when(w.compare("slt", low, high)):
                    self.inside(row, low, high, bytes_after(w, place, w.mul(w.sub(low, x), w["pitch"])))
            with w.when(w.negate(is_row)), w.loop(0, length) as at:
                self.fill(bytes_after(w, place, w.mul(at.i, w["pitch"])), self.run)

    def edge(self, row: Reg, x: Reg, place: Reg) -> None:
        """A row of taps of which some are outside."""
        w = self.w
        first = w.sub(w.mul(x, w["stride_w"]), w["padding_w"])
        with w.loop(0, w["kernel_w"]) as t:
            column = w.add(first, w.mul(t.i, w["dilation_w"]))
            tap = bytes_after(w, place, w.mul(t.i, w["pixel"]))
            is_there = w.compare("ult", column, w["size_w"])
            with w.when(is_there):
                self.copy(tap, bytes_after(w, row, w.mul(column, w["pixel"])), w["pixel"])
            with w.when(w.negate(is_there)):
                self.fill(tap, w["pixel"])

    def inside(self, row: Reg, low: Reg, high: Reg, place: Reg) -> None:
        """The rows of taps of pixels [low, high)."""
        w, count = self.w, self.w.sub(high, low)
        source = bytes_after(w, row, w.sub(w.mul(low, self.step), w.mul(w["padding_w"], w["pixel"])))
        past = bytes_after(w, source, w.mul(w.sub(count, 1), self.step), self.run, LONG)
        is_safe = w.new("i1", f"icmp ule {past}, {self.end.text}")
        short = w.compare("sle", self.run, SHORT)
        with w.when(w.both(is_safe, short)), w.loop(0, count, carry=[source, place]) as at:
            here, there = at.carry
            w.store(w.load(vector(SHORT), here, 1), there, 1)
            at.next = [bytes_after(w, here, self.step), bytes_after(w, there, w["pitch"])]
        with w.when(w.both(is_safe, w.negate(short))), w.loop(0, count, carry=[source, place]) as at:
            here, there = at.carry
            with w.loop(0, self.run, LONG) as byte:
                w.store(w.load(vector(LONG), bytes_after(w, here, byte.i), 1), bytes_after(w, there, byte.i), 1)
            at.next = [bytes_after(w, here, self.step), bytes_after(w, there, w["pitch"])]
        with w.when(w.negate(is_safe)), w.loop(0, count) as at:
            here, there = bytes_after(w, source, w.mul(at.i, self.step)), bytes_after(w, place, w.mul(at.i, w["pitch"]))
            self.copy(there, here, self.run)

    def copy(self, target: Reg, source: Reg, length: Reg) -> None:
        self.w.call("llvm.memcpy.p0.p0.i64", target, source, length, Reg("false", "i1"))

    def fill(self, target: Reg, length: Reg) -> None:
        self.w.call("llvm.memset.p0.i64", target, self.zero, length, Reg("false", "i1"))


def vector(count: int) -> str:
    """A vector of so many bytes."""
    return f"<{count} x i8>"


def flip_rows(w: Writer, target: Reg, length: Reg) -> None:
    """128 less everywhere, for instructions whose factors are signed. Pitches are whole vectors."""
    vector = "<16 x i8>"
    with w.loop(0, length, 16) as at:
        place = bytes_after(w, target, at.i)
        w.store(w.binary("xor", w.load(vector, place, 16), Reg("splat (i8 128)", vector)), place, 16)


# --- a tile -----------------------------------------------------------------------------------------------------------


def tile_text(kernel: ByteWindows, form: ByteForm) -> str:
    """One tile, of which `rows` and `wanted` columns are written if they are fewer."""
    height, lanes = form.height, form.lanes
    w = Writer(f"tile_{form.vectors}", TILE, "internal ")
    size = bytes_of(kernel.finish)
    spill = w.scratch("i8", height * form.width * size)
    full = w.both(w.compare("sge", w["rows"], height), w.compare("sge", w["wanted"], form.width))
    some = w.min(w["rows"], height), w.min(w["wanted"], form.width)
    other, other_row = w["other"], w["row"]
    if kernel.finish == "late_sum":
        with w.when(w.negate(full)):
            copy_rows(w, spill, form.width, w["other"], w["row"], some)
        other, other_row = w.select(full, w["other"], spill), w.select(full, w["row"], form.width)
    sums = byte_forms.by_rows(w, form, window_sums(w, form), height)
    finish = Finish(w, kernel.finish, lanes, w["head"])
    known = [finish.columns(w.at(w["columns"], v * lanes, "i32"), w["apart"]) for v in range(form.width // lanes)]
    others = [
        [bytes_after(w, other, w.mul(other_row, r), v * lanes) for v in range(len(known))] for r in range(height)
    ]
    if size == 1 and has_packs(form) and height % (QUAD // form.vectors) == 0 and QUAD % form.vectors == 0:
        results = packed_rows(w, form, finish, sums, known, others)
    else:
        results = [
            [finish.result(*given) for given in zip(sums[r], known, others[r], strict=True)] for r in range(height)
        ]
    with w.when(full):
        store_rows(w, results, w["c"], w.mul(w["row"], size), size)
    with w.when(w.negate(full)):
        store_rows(w, results, spill, form.width * size, size)
        some = some[0], w.mul(some[1], size)
        copy_rows(w, w["c"], w.mul(w["row"], size), spill, form.width * size, some)
    return w.text()


def window_sums(w: Writer, form: ByteForm) -> list[Reg]:
    """The sums over all of k: steps of a run, run after run. A pointer serves three rows."""
    twice, bases = w.add(w["pitch"], w["pitch"]), [w["a"]]
    for _ in range(SIDE, form.height, SIDE):
        bases.append(bytes_after(w, bases[-1], w["pitch"], twice))
    sides = (0, w["pitch"], twice)
    with w.loop(0, w["runs"], carry=[*bases, w["b"], *byte_forms.starts(form, form.height)]) as run:
        carried, start = run.carry, as_reg(0)
        for several in (TOGETHER, 1):
            with w.loop(start, w.sub(w["deep"], several - 1), several, carry=carried) as step:
                *held, b = step.carry[: len(bases) + 1]
                sums = step.carry[len(bases) + 1 :]
                for u in range(several):
                    rows = [
                        bytes_after(w, held[r // SIDE], sides[r % SIDE], u * form.group) for r in range(form.height)
                    ]
                    sums = byte_forms.multiply(w, form, rows, w.at(b, u * form.width * form.group, "i8"), sums)
                moved = [w.at(x, several * form.group, "i8") for x in held]
                step.next = [*moved, w.at(b, several * form.width * form.group, "i8"), *sums]
            carried, start = step.carry, step.i
        run.next = [*(bytes_after(w, x, w["next"]) for x in carried[: len(bases)]), *carried[len(bases) :]]
    return run.carry[len(bases) + 1 :]


def packed_rows(
    w: Writer, form: ByteForm, finish: Finish, sums: list[list[Reg]], known: list[tuple[Reg, ...]],
    others: list[list[Reg]],
) -> list[list[Reg]]:
    """The bytes of all rows, four vectors of sums at a time: of one row, or of two or four."""
    lanes, together = form.lanes, QUAD // form.vectors
    parts = lanes // 4
    # of bytes in 16s, four of each vector in turn: where the vectors' own order finds them
    order = [16 * at + 4 * q + j for q in range(QUAD) for at in range(parts) for j in range(4)]
    result = []
    for first in range(0, form.height, together):
        numbers = [
            finish.number(total, of, finish.floats_at(place))
            for r in range(first, first + together)
            for total, of, place in zip(sums[r], known, others[r], strict=True)
        ]
        bytes_ = finish.packed(numbers, form.bytes)
        for r in range(together):
            some = order[r * form.width : (r + 1) * form.width]
            result.append([w.shuffle(bytes_, bytes_, some)])
    return result


def store_rows(w: Writer, results: list[list[Reg]], target: Reg, row: Number, size: int) -> None:
    """Vectors of results of so many bytes, row by row."""
    for r, vectors in enumerate(results):
        at = 0
        for value in vectors:
            w.store(value, bytes_after(w, target, w.mul(row, r), at), 1)
            at += int(value.type.strip("<").split()[0]) * size


def copy_rows(
    w: Writer, target: Reg, to_row: Number, source: Reg, row: Number, some: tuple[Reg, Reg]
) -> None:
    """Some rows and columns of a tile."""
    with w.loop(0, some[0]) as r:
        place, given = bytes_after(w, target, w.mul(r.i, to_row)), bytes_after(w, source, w.mul(r.i, row))
        w.call("llvm.memcpy.p0.p0.i64", place, given, some[1], Reg("false", "i1"))
