"""CPU schedules of matrix products: packed strips, row blocks in cache, tiles in registers.

Enters: an element type and a `Finish`, what is done with each sum. Leaves: nests. `pack_nest` lays the right operand
out in strips as wide as a register tile, all threads together. `product_nest` takes blocks of rows: each packs its rows
of the left operand, some values of k at a time, into memory of its own that stays in the second-level cache, and
multiplies them with every strip. Sums over k are made in slices of fixed length, so a result depends neither on the
number of threads nor on how rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable

from ...loops.expr import Value, const, eq, ge, gt, idiv, irem, load, max_, min_, ne, or_, var
from ...loops.nest import BEGIN, For, If, Local, Multiply, Nest, Operand, Pack, Statement, Store, operands, rows
from ..targets import vector_bits
from ..tile_functions import ELEMENTS

SLICE = 512              # values of k whose sums stay in registers
DIRECT_SLICE = 32        # the same where the right operand is read where it lies: rows of it that are read side by side
# strips of columns that are packed at a time: rows of the right operand are read in longer runs
TOGETHER = 4
BLOCK_STRIPS = 12        # strips of rows in a block: what a thread packs of the left operand at a time
# The same of products whose k goes through spans: columns are packed anew for every block of rows, so blocks are large.
SPAN_STRIPS, SPAN_SLICE = 32, 512
TILES = {512: (14, 2), 256: (6, 2), 128: (8, 3)}     # rows and vectors of a register tile: sums fill most registers
ZERO, ONE = const(0, "i64"), const(1, "i64")


def number(n: int) -> Value:
    return const(n, "i64")


class Blocking:
    """Sizes for one element type and one width of vectors, by default this processor's."""

    def __init__(self, code: str, bits: int = 0) -> None:
        bits = bits or vector_bits()
        self.height, self.vectors = TILES[bits]
        self.is_narrow = bits == 128
        self.lanes = bits // 8 // ELEMENTS[code][1]
        self.width = self.vectors * self.lanes                              # columns of a tile, and of a strip
        # elements between values of k of packed rows
        self.pitch = -(-self.height // self.lanes) * self.lanes


PACK_PARAMS = ("n", "k", "line", "step", "batch", "strips", "groups")


def pack_nest(code: str, bits: int = 0) -> Nest:
    """Strips of the right operand [k, n], batch after batch: parallel over groups of strips."""
    cut = Blocking(code, bits)
    p = {name: var(name) for name in PACK_PARAMS}
    matrix, strip = var("matrix"), var("strip")
    width = number(cut.width)
    return Nest("pack_strips", operands([code], [code]), PACK_PARAMS, rows(
        Local("matrix", idiv(var("i"), p["groups"])),
        Local("strip", irem(var("i"), p["groups"]) * number(TOGETHER)),
        Pack(0, matrix * p["batch"] + strip * width * p["line"], p["line"], p["step"],
             1, (matrix * p["strips"] + strip) * p["k"] * width, p["k"] * width,
             p["n"] - strip * width, p["k"], min_(number(TOGETHER), p["strips"] - strip), cut.width),
    ))  # fmt: skip


SPAN_PACK_PARAMS = ("n", "line", "step", "span", "spans", "apart", "groups", "strips")


def span_pack_nest(code: str, bits: int = 0) -> Nest:
    """The same for a right operand whose k goes through several spans of memory, `apart` elements from each other:
    strips hold them one after the other. Parallel over groups of strips, span by span."""
    cut = Blocking(code, bits)
    p = {name: var(name) for name in SPAN_PACK_PARAMS}
    nth, strip = var("nth"), var("strip")
    width = number(cut.width)
    deep = p["span"] * p["spans"]
    return Nest("pack_spans", operands([code], [code]), SPAN_PACK_PARAMS, rows(
        Local("nth", idiv(var("i"), p["groups"])),
        Local("strip", irem(var("i"), p["groups"]) * number(TOGETHER)),
        Pack(0, nth * p["apart"] + strip * width * p["line"], p["line"], p["step"],
             1, (strip * deep + nth * p["span"]) * width, deep * width,
             p["n"] - strip * width, p["span"], min_(number(TOGETHER), p["strips"] - strip), cut.width),
    ))  # fmt: skip


PRODUCT_PARAMS = (
    "m", "n", "k",
    "line", "step", "row", "batch_a", "batch_b", "batch_c",   # strides: of the left operand, of the result, of batches
    # rows of a block, how many; strips of a part of the columns, how many
    "block", "blocks", "part", "parts",
)  # fmt: skip
OWN_PARAMS = ("right_line", "right_step")          # strides of a right operand that is not packed yet
SPAN_PARAMS = ("span", "spans", "left_apart", "right_apart")    # of k: length, how many, strides between them


def product_nest(
    code: str, finish: Finish | None = None, form: str = "packed", bits: int = 0, by_span: bool = False
) -> Nest:
    """Blocks of rows times parts of columns, batch after batch: operands left, right, what `finish` reads, result.

    packed: the right operand was packed in strips before.
    own: it is as it lies in memory, and every part packs its strips for itself: one block holds all rows.
    direct: its columns are neighbours in memory, and tiles read it where it is: there are few rows, so packing would
    cost more than multiplying. Slices of k are short, so that a few rows of it are read at a time, from end to end.
    `by_span`: k goes through several spans of memory, the pixels of image after image.
    """
    kind = _SpanProduct if by_span else _Product
    return kind(Blocking(code, bits), code, finish, form).nest()


class _Product:
    """The nest of a product in the making: names of its loops, numbers of its operands."""

    more_params: tuple[str, ...] = ()
    most_strips = BLOCK_STRIPS
    longest = SLICE

    def __init__(self, cut: Blocking, code: str, finish: Finish | None, form: str) -> None:
        self.cut, self.code, self.finish, self.form = cut, code, finish, form
        self.slice = DIRECT_SLICE if form == "direct" else self.longest
        self.own = form != "packed"
        self.late = () if finish is None else finish.codes
        self.c = 2 + len(self.late)
        self.left, self.strip = self.c + 1, self.c + 2     # packed rows; packed columns, in the forms that pack them
        self.height, self.width = number(cut.height), number(cut.width)

    def nest(self) -> Nest:
        params = (
            *PRODUCT_PARAMS,
            *(OWN_PARAMS if self.own else ()),
            *self.more_params,
            *(() if self.finish is None else self.finish.params),
        )
        stack = [Operand(self.code, self.most_strips * self.slice * self.cut.pitch)]
        stack += [Operand(self.code, TOGETHER * self.slice * self.cut.width)] if self.own else []
        name = "_".join(["matrix_product", self.form, *([] if self.finish is None else [self.finish.name])])
        blocks, parts = var("blocks"), var("parts")
        body = (
            Local("matrix", idiv(var("i"), blocks * parts)),
            Local("j0", irem(var("i"), parts) * var("part")),
            Local("i0", irem(idiv(var("i"), parts), blocks) * var("block")),
            Local("high", min_(var("block"), var("m") - var("i0"))),
            Local("row_strips", idiv(var("high") + number(self.cut.height - 1), self.height)),
            *self.slices(),
            For("slice", ZERO, var("slices"), (
                *self.slice_places(),
                If(or_(or_(eq(var("i"), BEGIN), eq(var("j0"), ZERO)), gt(var("k"), number(self.slice))),
                   (self.pack_rows(),)),
                self.columns(),
            )),
        )  # fmt: skip
        return Nest(name, (*operands([self.code, self.code, *self.late], [self.code]), *stack), params, rows(*body))

    def slices(self) -> list[Statement]:
        """How many slices of k there are."""
        return [
            Local("slices", max_(idiv(var("k") + number(self.slice - 1), number(self.slice)), ONE)),
            # about equally long, not a short last one
            Local("even", idiv(var("k") + var("slices") - ONE, var("slices"))),
        ]

    def slice_places(self) -> list[Statement]:
        """Where one begins, and how long it is."""
        return [
            Local("k0", var("slice") * var("even")),
            Local("deep", min_(var("even"), var("k") - var("k0"))),
        ]

    def pack_rows(self) -> Statement:
        """The block's rows of the left operand, one slice of k. The next part of the columns finds them there,
        if k is one slice."""
        line, step = var("line"), var("step")
        start = var("matrix") * var("batch_a") + var("i0") * line + var("k0") * step
        apart = number(self.slice * self.cut.pitch)
        return Pack(
            0, start, line, step, self.left, ZERO, apart, var("high"), var("deep"), var("row_strips"), self.cut.height
        )

    def columns(self) -> For:
        """Every strip of the part meets all rows."""
        strips = min_(var("j0") + var("part"), idiv(var("n") + number(self.cut.width - 1), self.width))
        if self.form == "packed":
            at = (var("matrix") * var("batch_b") + var("j") * var("k") + var("k0")) * self.width
            return For("j", var("j0"), strips, (self.tiles("s", 1, at, self.width),))
        groups = idiv(strips - var("j0") + number(TOGETHER - 1), number(TOGETHER))
        inside = self.tiles("s", self.strip, (var("j") - var("g0")) * number(self.slice * self.cut.width), self.width)
        packed = (self.pack_strips(), For("j", var("g0"), var("g0") + var("some"), (inside,)))
        if self.form == "direct":    # strips that are not whole would be read past the end of memory
            at = var("matrix") * var("batch_b") + var("k0") * var("right_step") + var("d") * self.width
            whole = For("d", var("g0"), var("g0") + var("some"), (self.tiles("t", 1, at, var("right_step"), "d"),))
            packed = (If(ge(var("n"), (var("g0") + var("some")) * self.width), (whole,), packed),)
        return For("group", ZERO, groups, (
            Local("g0", var("j0") + var("group") * number(TOGETHER)),
            Local("some", min_(number(TOGETHER), strips - var("g0"))),
            *packed,
        ))  # fmt: skip

    def tiles(self, name: str, right: int, at: Value, step: Value, strip: str = "j") -> For:
        """All rows times the strip that begins at element `at` of operand `right`."""
        return For(name, ZERO, var("row_strips"), tuple(self.tile(var(name), var(strip), right, at, step)))

    def pack_strips(self) -> Statement:
        first, line, step = var("g0") * self.width, var("right_line"), var("right_step")
        start = var("matrix") * var("batch_b") + first * line + var("k0") * step
        apart = number(self.slice * self.cut.width)
        return Pack(
            1, start, line, step, self.strip, ZERO, apart, var("n") - first, var("deep"), var("some"), self.cut.width
        )

    def tile(self, s: Value, j: Value, right: int, right_at: Value, right_step: Value) -> list[Statement]:
        """One tile of the result, and what becomes of it once all of k was summed."""
        k0, deep = var("k0"), var("deep")
        corner = (var("i0") + s * self.height, j * self.width)
        at = var("matrix") * var("batch_c") + corner[0] * var("row") + corner[1]
        high, wide = min_(self.height, var("high") - s * self.height), min_(self.width, var("n") - corner[1])
        multiply = Multiply(
            self.left, s * number(self.slice * self.cut.pitch), right, right_at, right_step, self.c, at, var("row"),
            high, wide, deep, ne(k0, ZERO), self.cut.height, self.cut.vectors,
        )  # fmt: skip
        if self.finish is None:
            return [multiply]
        done: Statement = self.finish.loop(self.code, self.c, at, corner, high, wide, s.attr)
        if self.cut.is_narrow:     # vectors of an unknown number of columns go four at a time, more than there are
            whole = self.finish.loop(self.code, self.c, at, corner, high, self.width, f"{s.attr}w")
            done = If(ge(wide, self.width), (whole,), (done,))
        return [multiply, If(ge(k0 + deep, var("k")), (done,))]


class _SpanProduct(_Product):
    """The same where k goes through spans: a slice is several short ones, or an even part of a long one."""

    more_params = SPAN_PARAMS
    most_strips = SPAN_STRIPS
    longest = SPAN_SLICE

    def slices(self) -> list[Statement]:
        span, most = var("span"), number(self.slice)
        return [
            Local("pieces", max_(idiv(span + number(self.slice - 1), most), ONE)),
            Local("even", idiv(span + var("pieces") - ONE, var("pieces"))),
            Local("abreast", max_(idiv(most, span), ONE)),
            Local("slices", var("pieces") * idiv(var("spans") + var("abreast") - ONE, var("abreast"))),
        ]

    def slice_places(self) -> list[Statement]:
        return [
            Local("span0", idiv(var("slice"), var("pieces")) * var("abreast")),
            Local("inside", irem(var("slice"), var("pieces")) * var("even")),
            Local("long", min_(var("even"), var("span") - var("inside"))),
            Local("several", min_(var("abreast"), var("spans") - var("span0"))),
            Local("k0", var("span0") * var("span") + var("inside")),
            Local("deep", var("several") * var("long")),
        ]

    def pack_rows(self) -> Statement:
        line, step, nth = var("line"), var("step"), var("a.nth")
        start = var("i0") * line + (var("span0") + nth) * var("left_apart") + var("inside") * step
        place = nth * var("long") * number(self.cut.pitch)
        pack = Pack(
            0, start, line, step, self.left, place, number(self.slice * self.cut.pitch),
            var("high"), var("long"), var("row_strips"), self.cut.height,
        )  # fmt: skip
        return For("a.nth", ZERO, var("several"), (pack,))

    def pack_strips(self) -> Statement:
        first, line, step, nth = var("g0") * self.width, var("right_line"), var("right_step"), var("b.nth")
        start = first * line + (var("span0") + nth) * var("right_apart") + var("inside") * step
        place = nth * var("long") * self.width
        pack = Pack(
            1, start, line, step, self.strip, place, number(self.slice * self.cut.width),
            var("n") - first, var("long"), var("some"), self.cut.width,
        )  # fmt: skip
        return For("b.nth", ZERO, var("several"), (pack,))


class Finish:
    """What becomes of a sum before it is stored for good: `value(sum, reads)`, of operands laid out like the result, or
    (`per_row`) one number for every row of it."""

    def __init__(
        self,
        name: str,
        codes: tuple[str, ...],
        value: Callable[[Value, list[Value]], Value],
        per_row: bool = False,
    ) -> None:
        self.name, self.codes, self.value, self.per_row = name, codes, value, per_row
        self.params = tuple(f"{what}{k}" for k in range(len(codes)) for what in ("f_row", "f_col", "f_batch"))

    def loop(
        self, code: str, c: int, at: Value, corner: tuple[Value, Value], high: Value, wide: Value, prefix: str
    ) -> Statement:
        """Over a tile whose sums are complete: it is still in the nearest cache."""
        r, q = var(f"{prefix}.r"), var(f"{prefix}.q")
        reads = []
        for k, own in enumerate(self.codes):
            row, column = (corner[0] + r) * var(f"f_row{k}"), (corner[1] + q) * var(f"f_col{k}")
            place = var("matrix") * var(f"f_batch{k}") + row
            reads.append(load(2 + k, place if self.per_row else place + column, own))
        place = at + r * var("row") + q
        inner = For(q.attr, ZERO, wide, (Store(c, place, self.value(load(c, place, code), reads)),), vector=True)
        return For(r.attr, ZERO, high, (inner,))
