"""Rows of unsigned bytes times packed columns of signed ones, and what follows fused to it (requantize.py).

Enters: rows where they lie, weights packed by `pack_weights` of the planner, `COLUMNS` and `HEAD` of requantize.py, and
sums of rows where weights have zero points. Leaves: bytes, floats or exact sums, row-major. Refuses nothing.

A tile of sums stays in registers for all of k, so that nothing is written but results. Rows are shared out evenly:
tiles of a product differ by one row at most, and a kernel is made for one pair of heights (`low` and one more).
"""

from __future__ import annotations

import functools

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Reg, Writer, declarations
from ...tiles.tiles import argument, bytes_after
from . import byte_forms
from .byte_forms import ByteForm
from .requantize import RESULTS, Finish

PARAMS = (
    "n", "groups", "pitch", "row", "padded", "extra", "block", "part", "parts", "tiles",
)
TILE = (
    ("ptr", "a"), ("i64", "pitch"), ("ptr", "b"), ("i64", "groups"), ("ptr", "columns"), ("i64", "padded"),
    ("ptr", "head"), ("ptr", "row_sums"), ("ptr", "c"), ("i64", "row"), ("i64", "wanted"),
)
BUSY = 10                    # sums that must be in the making at a time, or instructions wait for one another
LINE, AHEAD = 64, 2048       # bytes of a line of the cache, and between asking for packed columns and reading them
SIDE = 3                     # rows that one pointer serves: it, and one and two pitches after it


class ByteProduct(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]
    form: ByteForm
    kind: str
    low: int
    by_row: bool

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def product_kernel(form: ByteForm, kind: str, low: int, by_row: bool) -> Kernel:
    """Operands: rows, weights, columns, head, sums of rows (or anything), result. The parallel range is blocks of tiles
    of rows times parts of strips."""
    return cache.kernel(ByteProduct("byte_product", PARAMS, form, kind, low, by_row), _object)


def _object(kernel: ByteProduct) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    host = host_target()
    if kernel.form.feature:        # LLVM knows it of processors that it has a name for
        host = host.but(features=f"{host.features},+{kernel.form.feature}".lstrip(","))
    return compile_ir(module_text(kernel, host.triple), host, "object", by_hand=True)


def module_text(kernel: ByteProduct, triple: str) -> str:
    """LLVM IR of the kernel."""
    heights = [h for h in (kernel.low, kernel.low + 1) if 0 < h <= kernel.form.height]
    texts = [tile_text(kernel, h) for h in heights]
    declared = kernel.form.declared() + declarations(kernel.form.lanes, "float")
    return f'target triple = "{triple}"\n' + declared + "\n".join([*texts, product_text(kernel, heights)])


def product_text(kernel: ByteProduct, heights: list[int]) -> str:
    """Every strip of a part meets all tiles of a block."""
    w = Writer("byte_product", ABI)
    a, b, columns, head, row_sums, c = (argument(w, "ptrs", k, "ptr") for k in range(6))
    p = {name: argument(w, "params", k) for k, name in enumerate(PARAMS)}
    size = RESULTS[kernel.kind][1]
    width = kernel.form.width
    strip = w.mul(p["groups"], width * kernel.form.group)
    strips = w.div(p["padded"], width)
    with w.loop(w["begin"], w["end"]) as item:
        i0, j0 = w.mul(w.div(item.i, p["parts"]), p["block"]), w.mul(w.rem(item.i, p["parts"]), p["part"])
        i1, j1 = w.min(w.add(i0, p["block"]), p["tiles"]), w.min(w.add(j0, p["part"]), strips)
        with w.loop(j0, j1) as j, w.loop(i0, i1) as i:
            first = w.add(w.mul(i.i, kernel.low), w.min(i.i, p["extra"]))
            column = w.mul(j.i, width)
            given = [
                bytes_after(w, a, w.mul(first, p["pitch"])), p["pitch"], bytes_after(w, b, w.mul(j.i, strip)),
                p["groups"], w.at(columns, column, "i32"), p["padded"], head, w.at(row_sums, first, "i32"),
                bytes_after(w, c, w.mul(w.add(w.mul(first, p["row"]), column), size)), p["row"],
                w.sub(p["n"], column),
            ]
            for height in heights:
                how = "slt" if height > kernel.low else "sge"
                with w.when(w.compare(how, i.i, p["extra"])):
                    w.call(f"tile_{height}", *given)
    return w.text()


def tile_text(kernel: ByteProduct, height: int) -> str:
    """One tile, of which `wanted` columns are written if they are fewer than a strip has."""
    form = kernel.form
    w = Writer(f"tile_{height}", TILE, "internal ")
    spill = w.scratch(RESULTS[kernel.kind][0], height * form.width)
    sums = byte_forms.by_rows(w, form, tile_sums(w, form, height), height)
    finish = Finish(w, kernel.kind, form.lanes, w["head"], kernel.by_row, form.has_fma)
    across = form.width // form.lanes
    known = [finish.columns(w.at(w["columns"], v * form.lanes, "i32"), w["padded"]) for v in range(across)]
    results = []
    for r in range(height):
        row_sum = w.splat(w.load("i32", w.at(w["row_sums"], r, "i32"), 4), form.lanes) if kernel.by_row else None
        results.append([finish.result(total, of, row_sum) for total, of in zip(sums[r], known, strict=True)])
    _write(w, kernel, results, spill)
    return w.text()


def tile_sums(w: Writer, form: ByteForm, height: int) -> list[Reg]:
    """The sums of `height` rows from w["a"] on, w["pitch"] bytes apart, over the w["groups"] groups of k of the strip
    at w["b"]. Few rows take several groups at a time, whose sums are added up in the end."""
    zeros = byte_forms.starts(form, height)
    together = max(1, min(4, BUSY // len(zeros)))
    twice, bases = w.add(w["pitch"], w["pitch"]), [w["a"]]
    for _ in range(SIDE, height, SIDE):
        bases.append(bytes_after(w, bases[-1], w["pitch"], twice))
    pointers, totals = [*bases, w["b"]], [zeros] * together
    start: Reg | int = 0
    for count in dict.fromkeys((together, 1)):
        carried = [*pointers, *(x for of in totals[:count] for x in of)]
        with w.loop(start, w.sub(w["groups"], count - 1), count, carry=carried) as g:
            *held, b = g.carry[: len(pointers)]
            now = g.carry[len(pointers) :]
            after = []
            for u in range(count):
                rows = _rows(w, held, height, twice, u * form.group)
                place = w.at(b, u * form.width * form.group, "i8")
                for line in range(0, form.width * form.group, LINE):
                    w.prefetch(w.at(place, AHEAD + line, "i8"), 1)
                after += byte_forms.multiply(w, form, rows, place, now[u * len(zeros) : (u + 1) * len(zeros)])
            moved = [w.at(x, count * form.group, "i8") for x in held]
            g.next = [*moved, w.at(b, count * form.width * form.group, "i8"), *after]
        start, pointers, now = g.i, g.carry[: len(pointers)], g.carry[len(pointers) :]
        if count > 1:
            totals = [now[u * len(zeros) : (u + 1) * len(zeros)] for u in range(count)]
            totals = [[functools.reduce(w.add, of) for of in zip(*totals, strict=True)]]
    return now


def _rows(w: Writer, held: list[Reg], height: int, twice: Reg, at: int) -> list[Reg]:
    """Addresses of the rows, `at` bytes after what is held: every SIDE rows have a pointer."""
    result = []
    for r in range(height):
        place = held[r // SIDE]
        if r % SIDE:
            place = w.at(place, w["pitch"] if r % SIDE == 1 else twice, "i8")
        result.append(w.at(place, at, "i8") if at else place)
    return result


def _write(w: Writer, kernel: ByteProduct, results: list[list[Reg]], spill: Reg) -> None:
    """The results to `c`; through the stack where not all are wanted."""
    form = kernel.form
    element, size = RESULTS[kernel.kind]
    full = w.compare("sge", w["wanted"], form.width)

    def place(r: int | Reg, column: int | Reg) -> Reg:
        return w.at(w["c"], w.add(w.mul(w["row"], r), column), element)

    with w.when(full):
        for r, row in enumerate(results):
            for v, value in enumerate(row):
                w.store(value, place(r, v * form.lanes), size)
    with w.when(w.negate(full)):
        for r, row in enumerate(results):
            for v, value in enumerate(row):
                w.store(value, w.at(spill, r * form.width + v * form.lanes, element), size)
        with w.loop(0, len(results)) as i, w.loop(0, w["wanted"]) as j:
            value = w.load(element, w.at(spill, w.add(w.mul(i.i, form.width), j.i), element), size)
            w.store(value, place(i.i, j.i), size)
