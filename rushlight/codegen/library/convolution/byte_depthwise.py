"""Depthwise convolutions of bytes: every channel of unsigned activations under its own signed kernel.

Enters: activations and results whose channels lie last and densely, weights and columns in the order of `order_of`, and
what byte_finish.py reads, followed by a pixel of padding. Leaves: a kernel with the usual ABI, whose results are
requantized, or sums. Refuses: fewer channels than a block has (`block_of`).

A block of channels meets four taps at a time: bytes of the four are interleaved in registers, so that an instruction
that adds up four products per lane adds up taps. Interleaving is done within 16 bytes, hence the order of columns; the
last block is one that ends with the last channel, and may compute some channels a second time.
"""

from __future__ import annotations

import functools

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Reg, Writer, as_reg
from ...tiles.tiles import argument, bytes_after
from ..products import byte_forms
from ..products.byte_forms import ByteForm
from .byte_finish import COLUMNS, Finish, bytes_of, has_packs, packs_declared
from .byte_windows import GEOMETRY

QUAD = 4
MOST_TAPS = 4096         # offsets of taps lie on the stack
NARROWER = (
    ("vnni", 8, "llvm.x86.avx512.vpdpbusd.256"), ("vnni", 4, "llvm.x86.avx512.vpdpbusd.128"),
    ("words", 8, "llvm.x86.avx2.pmadd.wd"), ("words", 4, "llvm.x86.sse2.pmadd.wd"),
)
PARAMS = (
    *GEOMETRY,
    "channels",
    "blocks",        # of channels
    "quads",         # of taps
    "apart",         # columns of all blocks
)
OPERANDS = ("source", "weights", "columns", "head", "result", "other")
PIXEL = (
    ("ptr", "base"), ("ptr", "offsets"), ("ptr", "weights"), ("ptr", "columns"), ("ptr", "head"), ("ptr", "result"),
    ("ptr", "other"), ("i64", "channels"), ("i64", "blocks"), ("i64", "quads"), ("i64", "apart"), ("i64", "count"),
    ("i64", "step"),
)
MOST_UNROLLED = 25       # taps that are written out: of 5x5


class ByteDepthwise(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest. `finish`: see byte_finish.py."""

    name: str
    params: tuple[str, ...]
    form: ByteForm
    finish: str
    taps: int              # 0: any number

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def depthwise_kernel(form: ByteForm, finish: str, taps: int) -> Kernel:
    """Operands: activations, weights, columns (and a pixel of padding), head, result, what is added (or anything).
    The parallel range is rows of the result, of all images."""
    taps = taps if taps <= MOST_UNROLLED else 0
    return cache.kernel(ByteDepthwise("byte_depthwise", PARAMS, form, finish, taps), _object)


def _object(kernel: ByteDepthwise) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    host = host_target()
    if kernel.form.feature:        # LLVM knows it of processors that it has a name for
        host = host.but(features=f"{host.features},+{kernel.form.feature}".lstrip(","))
    return compile_ir(module_text(kernel, host.triple), host, "object", by_hand=True)


def module_text(kernel: ByteDepthwise, triple: str) -> str:
    """LLVM IR of the kernel."""
    declared = kernel.form.declared() + packs_declared(kernel.form)
    texts = pixels_text(kernel), rows_text(bytes_of(kernel.finish))
    return f'target triple = "{triple}"\n' + declared + "\n".join(texts)


def forms_of(form: ByteForm) -> list[ByteForm]:
    """A processor's forms for blocks of channels, the widest first, from its form for products."""
    if form.name == "usmmla":          # who has it has the other
        return [byte_forms.SDOT]
    return [form, *(
        form.but(name=f"{kind}_{32 * lanes}", call=call, lanes=lanes)
        for kind, lanes, call in NARROWER
        if form.name.startswith(kind) and lanes < form.lanes
    )]


def block_of(form: ByteForm) -> int:
    """Channels of a block."""
    return 4 * form.lanes


def order_of(form: ByteForm) -> list[int]:
    """Which channel of a block is meant by each column of it."""
    return [16 * lane + 4 * q + j for q in range(4) for lane in range(form.lanes // 4) for j in range(4)]


# --- the walk ---------------------------------------------------------------------------------------------------------


def rows_text(size: int) -> str:
    """Rows of the result: pixels all of whose taps are inside share the offsets of taps."""
    w = Writer("byte_depthwise", ABI)
    inner, own = w.scratch("i64", MOST_TAPS), w.scratch("i64", MOST_TAPS)
    for k, name in enumerate(OPERANDS):
        w[name] = argument(w, "ptrs", k, "ptr")
    for k, name in enumerate(PARAMS):
        w[name] = argument(w, "params", k)
    w["padding"] = w.at(w["columns"], w.mul(w["apart"], len(COLUMNS)), "i32")
    tap_offsets(w, inner)
    middle = middle_of(w)
    with w.loop(w["begin"], w["end"]) as row:
        y, rest = w.rem(row.i, w["out_h"]), w.div(row.i, w["out_h"])
        z, image = w.rem(rest, w["out_d"]), w.div(rest, w["out_d"])
        start_z, start_y = (
            w.sub(w.mul(at, w[f"stride_{d}"]), w[f"padding_{d}"]) for d, at in (("d", z), ("h", y))
        )
        is_inside = w.both(inside(w, start_z, "d"), inside(w, start_y, "h"))
        line = w.mul(w.add(w.mul(w.add(w.mul(image, w["size_d"]), start_z), w["size_h"]), start_y), w["size_w"])
        low, high = w.select(is_inside, middle[0], w["out_w"]), w.select(is_inside, middle[1], w["out_w"])
        for begin, end in ((0, low), (high, w["out_w"])):
            with w.loop(begin, end) as x:
                start_x = w.sub(w.mul(x.i, w["stride_w"]), w["padding_w"])
                own_offsets(w, own, inner, pixel_at(w, line, x.i), (start_z, start_y, start_x))
                call_pixels(w, own, line, row.i, x.i, as_reg(1), size)
        with w.when(w.compare("slt", low, high)):
            call_pixels(w, inner, line, row.i, low, w.sub(high, low), size)
    return w.text()


def pixel_at(w: Writer, line: Reg, x: Reg) -> Reg:
    """The first tap of a pixel, which may lie outside."""
    start = w.sub(w.mul(x, w["stride_w"]), w["padding_w"])
    return bytes_after(w, w["source"], w.mul(w.add(line, start), w["channels"]))


def call_pixels(w: Writer, offsets: Reg, line: Reg, row: Reg, x: Reg, count: Reg, size: int) -> None:
    """`count` pixels of a row from `x` on, `size` bytes to a result."""
    place = w.mul(w.add(w.mul(row, w["out_w"]), x), w["channels"])
    w.call(
        "pixels", pixel_at(w, line, x), offsets, w["weights"], w["columns"], w["head"],
        bytes_after(w, w["result"], w.mul(place, size)), bytes_after(w, w["other"], place), w["channels"], w["blocks"],
        w["quads"], w["apart"], count, w.mul(w["stride_w"], w["channels"]),
    )


def middle_of(w: Writer) -> tuple[Reg, Reg]:
    """Pixels of a row all of whose taps are inside, first and past the last."""
    low = w.div(w.sub(w.add(w["padding_w"], w["stride_w"]), 1), w["stride_w"])
    reach = w.mul(w.sub(w["kernel_w"], 1), w["dilation_w"])
    room = w.sub(w.add(w["size_w"], w["padding_w"]), w.add(reach, 1))
    high = w.select(w.compare("slt", room, 0), 0, w.add(w.div(w.max(room, 0), w["stride_w"]), 1))
    low = w.min(low, w["out_w"])
    return low, w.max(low, w.min(high, w["out_w"]))


def inside(w: Writer, start: Reg, dim: str) -> Reg:
    """Whether all taps from `start` on are in the input, along a dim."""
    reach = w.add(start, w.mul(w.sub(w[f"kernel_{dim}"], 1), w[f"dilation_{dim}"]))
    return w.both(w.compare("sge", start, 0), w.compare("slt", reach, w[f"size_{dim}"]))


def tap_offsets(w: Writer, table: Reg) -> None:
    """Bytes from the first tap to each, if all are inside; what fills the last quad is the first."""
    last = w.mul(w["quads"], QUAD)
    with w.loop(0, last) as t:
        w.store(Reg("0", "i64"), w.at(table, t.i, "i64"), 8)
    with w.loop(0, w["kernel_d"]) as i, w.loop(0, w["kernel_h"]) as j, w.loop(0, w["kernel_w"]) as k:
        z, y, x = (w.mul(t.i, w[f"dilation_{d}"]) for t, d in ((i, "d"), (j, "h"), (k, "w")))
        pixel = w.add(w.mul(w.add(w.mul(z, w["size_h"]), y), w["size_w"]), x)
        number = w.add(w.mul(w.add(w.mul(i.i, w["kernel_h"]), j.i), w["kernel_w"]), k.i)
        w.store(w.mul(pixel, w["channels"]), w.at(table, number, "i64"), 8)


def own_offsets(w: Writer, table: Reg, inner: Reg, base: Reg, start: tuple[Reg, Reg, Reg]) -> None:
    """The same for a pixel of which some taps are outside: these are the pixel of padding."""
    there, here = (w.new("i64", f"ptrtoint {p} to i64") for p in (w["padding"], base))
    away = w.sub(there, here)
    taps = w.mul(w.mul(w["kernel_d"], w["kernel_h"]), w["kernel_w"])
    with w.loop(taps, w.mul(w["quads"], QUAD)) as t:
        w.store(away, w.at(table, t.i, "i64"), 8)
    with w.loop(0, w["kernel_d"]) as i, w.loop(0, w["kernel_h"]) as j:
        z, y = (w.add(s, w.mul(t.i, w[f"dilation_{d}"])) for s, t, d in ((start[0], i, "d"), (start[1], j, "h")))
        is_row = w.both(w.compare("ult", z, w["size_d"]), w.compare("ult", y, w["size_h"]))
        first = w.mul(w.add(w.mul(i.i, w["kernel_h"]), j.i), w["kernel_w"])
        with w.loop(0, w["kernel_w"]) as k:
            x = w.add(start[2], w.mul(k.i, w["dilation_w"]))
            is_there = w.both(is_row, w.compare("ult", x, w["size_w"]))
            number = w.add(first, k.i)
            offset = w.select(is_there, w.load("i64", w.at(inner, number, "i64"), 8), away)
            w.store(offset, w.at(table, number, "i64"), 8)


# --- a pixel ----------------------------------------------------------------------------------------------------------


def pixels_text(kernel: ByteDepthwise) -> str:
    """All channels of `count` neighbours of the result, whose first taps are `step` bytes apart."""
    form, block, size = kernel.form, block_of(kernel.form), bytes_of(kernel.finish)
    w = Writer("pixels", PIXEL, "internal ")
    finish = Finish(w, kernel.finish, form.lanes, w["head"])
    last = w.sub(w["channels"], block)
    each = w.mul(w["quads"], QUAD * block)
    apart = w["step"], w.mul(w["channels"], size), w["channels"]
    with w.loop(0, w["blocks"]) as b:
        first = w.min(w.mul(b.i, block), last)
        weights = bytes_after(w, w["weights"], w.mul(b.i, each))
        known = w.at(w["columns"], w.mul(b.i, block), "i32")
        columns = [finish.columns(w.at(known, q * form.lanes, "i32"), w["apart"]) for q in range(QUAD)]
        firsts = ("base", first), ("result", w.mul(first, size)), ("other", first)
        places = [bytes_after(w, w[name], at) for name, at in firsts]
        with w.loop(0, w["count"], carry=places) as x:
            source, result, other = x.carry
            sums = pixel_sums(w, kernel, source, weights)
            if kernel.finish == "sums":
                store_sums(w, form, [w.add(sums[q], columns[q][0]) for q in range(QUAD)], result)
            else:
                w.store(finished(w, form, finish, sums, columns, other), result, 1)
            x.next = [bytes_after(w, p, by) for p, by in zip(x.carry, apart, strict=True)]
    return w.text()


def finished(
    w: Writer, form: ByteForm, finish: Finish, sums: list[Reg], columns: list[tuple[Reg, ...]], other: Reg
) -> Reg:
    """The bytes of a block of channels of one pixel."""
    others: list[Reg | None] = [None] * QUAD
    if finish.finish == "late_sum":
        others = spread(w, form, w.load(form.bytes, other, 1))
    if has_packs(form):
        return finish.packed([finish.number(sums[q], columns[q], others[q]) for q in range(QUAD)], form.bytes)
    return joined(w, form, [finish.word(sums[q], columns[q], others[q]) for q in range(QUAD)])


def store_sums(w: Writer, form: ByteForm, sums: list[Reg], result: Reg) -> None:
    """The sums of a block of channels, back in the order of channels: four neighbours at a time."""
    for q, total in enumerate(sums):
        for lane in range(form.lanes // 4):
            few = w.shuffle(total, total, list(range(4 * lane, 4 * lane + 4)))
            w.store(few, bytes_after(w, result, 4 * (16 * lane + 4 * q)), 4)


def pixel_sums(w: Writer, kernel: ByteDepthwise, source: Reg, weights: Reg) -> list[Reg]:
    """The sums of a block of channels of one pixel."""
    sums = [Reg("zeroinitializer", kernel.form.sums)] * QUAD
    if kernel.taps:
        for first in range(0, kernel.taps, QUAD):
            place = w.at(weights, first * block_of(kernel.form), "i8")
            offsets = w.at(w["offsets"], first, "i64")
            sums = quad_sums(w, kernel.form, source, offsets, place, sums, kernel.taps - first)
        return sums
    with w.loop(0, w["quads"], carry=[weights, w["offsets"], *sums]) as quad:
        place, offsets, *sums = quad.carry
        after = quad_sums(w, kernel.form, source, offsets, place, sums)
        quad.next = [w.at(place, QUAD * block_of(kernel.form), "i8"), w.at(offsets, QUAD, "i64"), *after]
    return quad.carry[2:]


def quad_sums(
    w: Writer, form: ByteForm, source: Reg, offsets: Reg, weights: Reg, sums: list[Reg], count: int = QUAD
) -> list[Reg]:
    """The sums, four taps further; weights of what is past `count` are zero, so that any tap may stand there."""
    taps: list[Reg] = []
    result = []
    for t in range(QUAD):
        if t >= count:
            taps.append(taps[t - count])
            continue
        offset = w.load("i64", w.at(offsets, t, "i64"), 8)
        taps.append(w.load(form.bytes, bytes_after(w, source, offset), 1))
    for q, left in enumerate(interleaved(w, taps, block_of(form))):
        right = w.load(form.bytes, w.at(weights, q * block_of(form), "i8"), 4)
        result.append(dot_quads(w, form, sums[q], left, right))
    return result


def dot_quads(w: Writer, form: ByteForm, total: Reg, left: Reg, right: Reg) -> Reg:
    """total + left * right, four unsigned and four signed bytes of every lane."""
    if form.name.startswith("words"):
        pairs = zip(byte_forms.unsigned_words(w, form, left), byte_forms.signed_words(w, form, right), strict=True)
        for x, y in pairs:
            total = w.add(total, w.new(form.sums, f"call {form.sums} @{form.call}({x}, {y})"))
        return total
    if form.signed:
        left = w.binary("xor", left, Reg("splat (i8 128)", form.bytes))
    return byte_forms.dot(w, form, total, left, right)


def zipped(w: Writer, a: Reg, b: Reg, size: int, upper: bool, count: int) -> Reg:
    """Pieces of `size` bytes of two vectors by turns: of the lower or the upper halves of their 16 bytes."""
    order = [
        at + piece + byte
        for start in range(8 if upper else 0, count, 16)
        for piece in range(start, start + 8, size)
        for at in (0, count)
        for byte in range(size)
    ]
    return w.shuffle(a, b, order)


def interleaved(w: Writer, taps: list[Reg], count: int) -> list[Reg]:
    """Bytes of four vectors, channel after channel: four vectors, in the order of `order_of`."""
    first, second = ([zipped(w, taps[t], taps[t + 1], 1, half, count) for half in (False, True)] for t in (0, 2))
    return [zipped(w, first[n], second[n], 2, half, count) for n in (0, 1) for half in (False, True)]


def spread(w: Writer, form: ByteForm, bytes_: Reg) -> list[Reg | None]:
    """Bytes of a block of channels as four vectors of floats, in the order of `order_of`."""
    result: list[Reg | None] = []
    for q in range(QUAD):
        few = w.shuffle(bytes_, bytes_, order_of(form)[q * form.lanes : (q + 1) * form.lanes])
        result.append(w.new(f"<{form.lanes} x float>", f"uitofp {few} to <{form.lanes} x float>"))
    return result


def joined(w: Writer, form: ByteForm, words: list[Reg]) -> Reg:
    """The lowest bytes of four vectors, back in the order of channels."""
    total = None
    for q, word in enumerate(words):
        low = w.binary("and", word, Reg("splat (i32 255)", word.type)) if q < 3 else word
        low = w.binary("shl", low, Reg(f"splat (i32 {8 * q})", word.type)) if q else low
        total = low if total is None else w.binary("or", total, low)
    assert total is not None, "there are four"
    bytes_ = w.new(form.bytes, f"bitcast {total} to {form.bytes}")
    order = [start + 4 * (n % 4) + n // 4 for start in range(0, block_of(form), 16) for n in range(16)]
    return w.shuffle(bytes_, bytes_, order)
