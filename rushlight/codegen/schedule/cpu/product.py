"""CPU schedules of matrix products: packed strips, row blocks in cache, tiles in registers.

Enters: an element type, a `Finish`, what is done with each sum, and factors that are computed while they are packed
(factor.py). Leaves: nests. `pack_nest` lays the right operand
out in strips as wide as a register tile, all threads together. `product_nest` takes blocks of rows: each packs its rows
of the left operand, some values of k at a time, into memory of its own that stays in the second-level cache, and
multiplies them with every strip. Sums over k are made in slices of fixed length, so a result depends neither on the
number of threads nor on how rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable

from ....loops.expr import Value, and_, const, eq, ge, gt, idiv, irem, load, lt, max_, min_, ne, or_, var
from ....loops.nest import BEGIN, For, If, Local, Multiply, Nest, Operand, Pack, Statement, Store, operands, rows
from ....loops.record import Record
from ...text.targets import second_cache, vector_bits
from ...tiles.functions import LINE, UNROLL
from ...tiles.shapes import ELEMENTS, packed_unit
from .factor import Factor, along

# Values of k at a time where the right operand is read where it lies, which are rows read side by side, and at most,
# so that no short slice is left over.
DIRECT_SLICE, DIRECT_MOST = 32, 64
OWN_STRIPS = 32          # strips of rows where columns are packed by the first rows that meet them (16-byte vectors)
ROWS_TOGETHER = 11       # strips of columns at most where rows are read where they lie, each while all meet them
ROW_GROUP = 8            # strips of rows packed at a time where columns stay in the second-level cache meanwhile
LINES_TOGETHER = 8       # the same where elements of rows are broadcast, for every MiB of the second-level cache
# Of products whose k goes through spans: columns are packed anew for every block of rows, so blocks are large.
SPAN_STRIPS, SPAN_SLICE = 32, 512
# bytes between values of k from which rows are packed before they are used: a tile's would fall into few sets of the
# nearest cache, and half of every line be gone before the next tile reads it
SAME_PLACES = 4096


class Sizes(Record):
    """What a width of vectors asks for: a register tile whose sums fill most registers, and how products are cut."""

    height: int              # rows of a tile
    vectors: int             # vectors of columns
    slice: int = 512         # values of k whose sums stay in registers
    lines: int = 12          # strips of rows in a block, at most: what a thread packs of the left operand at a time
    together: int = 4        # strips of columns packed at a time: rows of the right operand are read in longer runs
    least_lines: int = 4     # strips of rows that are worth a block
    least_strips: int = 8    # strips of columns that are worth packing a block of rows for
    least_own: int = 4       # the same where parts pack the columns themselves
    in_lines: bool = False   # rows that are runs of memory are not packed: their elements are broadcast from there
    direct: int = 0          # rows up to which the right operand is better read where it lies, if its rows are long
    turned_work: int = 1 << 19   # multiply-adds from which packing pays where the right operand must be, to have rows


# A tile of four wide vectors has the fewest loads among those that fill the registers, which counts where two threads
# share a core. Slices of 256 sum within 0.7 of the error of those of 512.
SIZES = {512: Sizes(6, 4, 256, 28, 2, 9, 4, 2, True, 64, 1 << 16), 256: Sizes(6, 2), 128: Sizes(8, 3)}
ZERO, ONE = const(0, "i64"), const(1, "i64")


def number(n: int) -> Value:
    return const(n, "i64")


class Blocking:
    """Sizes for one element type and one width of vectors, by default this processor's."""

    def __init__(self, code: str, bits: int = 0, sizes: dict[int, Sizes] = SIZES) -> None:
        bits = bits or vector_bits()
        self.sizes = sizes[bits]
        self.height, self.vectors = self.sizes.height, self.sizes.vectors
        self.is_narrow = bits == 128
        self.lanes = bits // 8 // ELEMENTS[code][1]
        self.width = self.vectors * self.lanes                              # columns of a tile, and of a strip
        self.unit = packed_unit(bits, self.lanes)
        # elements between values of k of packed rows
        self.pitch = -(-self.height // self.unit) * self.unit


def lines_together() -> int:
    """Strips of columns that rows meet one after the other while they stay in the second-level cache."""
    return max(LINES_TOGETHER, min(2 * LINES_TOGETHER, LINES_TOGETHER * second_cache() >> 20))


PACK_PARAMS = ("n", "k", "line", "step", "batch", "strips", "groups")


def pack_nest(code: str, bits: int = 0) -> Nest:
    """Strips of the right operand [k, n], batch after batch: parallel over groups of strips."""
    cut = Blocking(code, bits)
    p = {name: var(name) for name in PACK_PARAMS}
    matrix, strip = var("matrix"), var("strip")
    width = number(cut.width)
    return Nest("pack_strips", operands([code], [code]), PACK_PARAMS, rows(
        Local("matrix", idiv(var("i"), p["groups"])),
        Local("strip", irem(var("i"), p["groups"]) * number(cut.sizes.together)),
        Pack(0, matrix * p["batch"] + strip * width * p["line"], p["line"], p["step"],
             1, (matrix * p["strips"] + strip) * p["k"] * width, p["k"] * width,
             p["n"] - strip * width, p["k"], min_(number(cut.sizes.together), p["strips"] - strip), cut.width),
    ))


def computed_pack_nest(code: str, factor: Factor, given: tuple[str, ...] = (), bits: int = 0) -> Nest:
    """The same for a right operand that is computed on the way, some values of k at a time."""
    cut = Blocking(code, bits)
    longest, together = cut.sizes.slice, number(cut.sizes.together)
    reads, p = len(factor.codes), {name: var(name) for name in PACK_PARAMS}
    matrix, strip, k0 = var("matrix"), var("strip"), var("k0")
    width, deep = number(cut.width), min_(number(longest), p["k"] - var("k0"))
    start = (matrix * p["strips"] + strip) * p["k"] * width + k0 * width
    packed = factor.pack(
        0, reads + 1, reads, start, p["k"] * width, matrix, strip * width, k0, p["n"] - strip * width, deep,
        min_(together, p["strips"] - strip), cut.width, cut.width, longest,
    )
    slices = idiv(p["k"] + number(longest - 1), number(longest))
    return Nest(
        "pack_computed",
        (*operands(factor.codes, [code]), Operand(code, cut.width * longest)),
        (*PACK_PARAMS, *factor.params, *given),
        rows(
            Local("matrix", idiv(var("i"), p["groups"])),
            Local("strip", irem(var("i"), p["groups"]) * together),
            For("slice", ZERO, slices, (Local("k0", var("slice") * number(longest)), *packed)),
        ),
    )


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
        Local("strip", irem(var("i"), p["groups"]) * number(cut.sizes.together)),
        Pack(0, nth * p["apart"] + strip * width * p["line"], p["line"], p["step"],
             1, (strip * deep + nth * p["span"]) * width, deep * width,
             p["n"] - strip * width, p["span"], min_(number(cut.sizes.together), p["strips"] - strip), cut.width),
    ))


PRODUCT_PARAMS = (
    "m", "n", "k",
    "line", "step", "row", "batch_a", "batch_b", "batch_c",   # strides: of the left operand, of the result, of batches
    # rows of a block, how many; strips of a part of the columns, how many
    "block", "blocks", "part", "parts",
)
OWN_PARAMS = ("right_line", "right_step")          # strides of a right operand that is not packed yet
SPAN_PARAMS = ("span", "spans", "left_apart", "right_apart")    # of k: length, how many, strides between them


def product_nest(
    code: str, finish: Finish | None = None, form: str = "packed", bits: int = 0, by_span: bool = False,
    left: Factor | None = None, right: Factor | None = None, given: tuple[str, ...] = (), in_lines: bool = False,
    pairs: bool = False,
) -> Nest:
    """Blocks of rows times parts of columns, batch after batch: operands left, right, what `finish` reads, result, and
    the sums where they are of another type than the result. `left`, `right`: factors that are computed.

    packed: the right operand was packed in strips before.
    own: it is as it lies in memory, and every part packs its strips for itself: one block holds all rows.
    rows: as own, and rows are runs of memory that few columns meet: whole tiles of them are not packed.
    direct: its columns are neighbours in memory, and tiles read it where it is: there are few rows, so packing would
    cost more than multiplying. Slices of k are short, so that a few rows of it are read at a time, from end to end.
    `by_span`: k goes through several spans of memory, the pixels of image after image.
    `in_lines`: rows are runs of memory, and tiles broadcast their elements from where they lie.
    `pairs`: both operands are complex, real and imaginary parts are neighbours; sizes and strides count parts. Rows of
    the left one and of the result are what they are, the right one has a second row for every one of its own, times i.
    """
    if by_span:
        return _SpanProduct(Blocking(code, bits), code, finish, form).nest()
    return _Product(Blocking(code, bits), code, finish, form, left, right, given, in_lines, pairs).nest()


class _Product:
    """The nest of a product in the making: names of its loops, numbers of its operands."""

    more_params: tuple[str, ...] = ()
    most_lines, longest = 0, 0       # of the processor's `Sizes`
    may_keep, may_group = True, True

    def __init__(
        self, cut: Blocking, code: str, finish: Finish | None, form: str,
        left: Factor | None = None, right: Factor | None = None, given: tuple[str, ...] = (), in_lines: bool = False,
        pairs: bool = False,
    ) -> None:
        self.pairs = pairs
        self.cut, self.code, self.finish, self.form = cut, code, finish, form
        self.slice = DIRECT_MOST if form == "direct" else self.longest or cut.sizes.slice
        self.own = form != "packed"
        self.asks = not cut.is_narrow
        # packed columns are what the first rows that meet them leave behind
        self.by_rows, self.in_lines = form == "rows", in_lines
        self.by_lines = in_lines and form == "own"
        self.by_groups = self.may_group and cut.sizes.in_lines and not in_lines and form == "own" and left is None
        stays = self.by_lines or self.by_groups
        self.together = ROWS_TOGETHER if self.by_rows else lines_together() if stays else cut.sizes.together
        self.keeps = self.may_keep and cut.is_narrow and form == "own" and right is None and not pairs
        self.factors, self.given = (left, right if self.own else None), given
        self.read = [
            *((code,) if left is None else left.codes),
            *((code,) if self.factors[1] is None else right.codes),
        ]
        self.b = 1 if left is None else len(left.codes)          # the first operand of the right factor
        self.late = () if finish is None else finish.codes
        self.outs = [code] if finish is None or finish.out is None else [finish.out, code]
        self.c = len(self.read) + len(self.late) + len(self.outs) - 1       # the sums
        # packed rows; packed columns, in the forms that pack them; lines that are computed
        self.left, self.strip = self.c + 1, self.c + 2
        self.stage = self.strip + self.own
        self.height, self.width = number(cut.height), number(cut.width)
        self.gap = LINE // ELEMENTS[code][1] if cut.is_narrow else 0

    def nest(self) -> Nest:
        params = (
            *PRODUCT_PARAMS,
            *(OWN_PARAMS if self.own else ()),
            *self.more_params,
            *(() if self.finish is None else self.finish.params),
            *[name for f in self.factors if f is not None for name in f.params],
            *self.given,
        )
        most = OWN_STRIPS if self.keeps or self.pairs else self.most_lines or self.cut.sizes.lines
        most = 1 if self.by_rows or self.in_lines else ROW_GROUP if self.by_groups else most
        stack = [Operand(self.code, most * (self.slice * self.cut.pitch + self.gap))]
        stack += [Operand(self.code, self.together * (self.slice * self.cut.width + self.gap))] if self.own else []
        if any(f is not None for f in self.factors):
            stack.append(Operand(self.code, max(self.cut.height, self.cut.width) * self.slice))
        form = "_".join([self.form, *(["lines"] if self.in_lines else []), *(["pairs"] if self.pairs else [])])
        name = "_".join(["matrix_product", form, *([] if self.finish is None else [self.finish.name])])
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
                Local("fresh", or_(or_(eq(var("i"), BEGIN), eq(var("j0"), ZERO)), gt(var("k"), number(self.slice)))),
                *self.fresh_rows(),
                self.columns(),
            )),
        )
        return Nest(name, (*operands([*self.read, *self.late], self.outs), *stack), params, rows(*body))

    def apart(self, wide: int) -> Value:
        """Elements from one packed strip, of so many lines, to the next: no further than they reach, and a line of the
        cache more, for powers of two would put all of them into the same few of its sets (16-byte vectors)."""
        return var("deep") * number(wide) + number(self.gap) if self.cut.is_narrow else number(self.slice * wide)

    def slices(self) -> list[Statement]:
        """How many slices of k there are."""
        some, rest = (DIRECT_SLICE, DIRECT_MOST - DIRECT_SLICE) if self.form == "direct" else (self.slice, 0)
        return [
            Local("slices", max_(idiv(var("k") + number(some - 1 - rest), number(some)), ONE)),
            # about equally long, not a short last one
            Local("even", self.even(var("k"), var("slices"))),
        ]

    def even(self, length: Value, pieces: Value) -> Value:
        """The length of one of so many pieces, in whole complex numbers where there are."""
        unit = number(2 if self.pairs else 1)
        return idiv(length + pieces * unit - ONE, pieces * unit) * unit

    def slice_places(self) -> list[Statement]:
        """Where one begins, and how long it is."""
        return [
            Local("k0", var("slice") * var("even")),
            Local("deep", min_(var("even"), var("k") - var("k0"))),
        ]

    def fresh_rows(self) -> list[Statement]:
        """Rows of a block, unless they are there: packed before they are used, or by the tiles that use them first,
        where rows are neighbours in memory (`in_place`). The first and the last few are packed before all the same."""
        if self.in_lines or self.by_groups:
            return []
        packed, fresh = tuple(self.pack_rows()), var("fresh", "b1")
        if self.by_rows:       # those that fill no tile
            rest = idiv(var("high"), self.height)
            pack = Pack(
                0, self.left_start() + rest * self.height * var("line"), var("line"), ONE, self.left, ZERO, ZERO,
                var("high") - rest * self.height, var("deep"), ONE, self.cut.height,
            )
            return [If(lt(rest, var("row_strips")), (pack,))]
        if not self.keeps or self.factors[0] is not None:
            return [If(fresh, packed)]
        start = var("matrix") * var("batch_a") + var("i0") + var("k0") * var("step")
        apart = self.apart(self.cut.pitch)
        rest = idiv(var("high"), self.height)

        def some(strip: Value) -> Pack:
            return Pack(
                0, start + strip * self.height, ONE, var("step"), self.left, strip * apart, apart,
                var("high") - strip * self.height, var("deep"), ONE, self.cut.height,
            )

        few = (some(ZERO), If(lt(rest, var("row_strips")), (some(rest),)))
        whole = ge(var("n"), (var("j0") + ONE) * self.width)
        spread = ne(irem(var("step"), number(SAME_PLACES // ELEMENTS[self.code][1])), ZERO)
        whole = and_(whole, spread)
        return [
            Local("in_place", and_(and_(eq(var("line"), ONE), whole), and_(fresh, self.is_run()))),
            If(fresh, (If(var("in_place", "b1"), few, packed),)),
        ]

    def is_run(self) -> Value:
        """Whether columns are neighbours where they lie, and a whole tile of rows meets them."""
        return and_(eq(var("right_line"), ONE), ge(var("high"), self.height))

    def pack_rows(self) -> list[Statement]:
        """The block's rows of the left operand, one slice of k. The next part of the columns finds them there,
        if k is one slice."""
        line, step, start = var("line"), var("step"), self.left_start()
        apart = self.apart(self.cut.pitch)
        if self.factors[0] is not None:
            return self.factors[0].pack(
                0, self.stage, self.left, ZERO, apart, var("matrix"), var("i0"), var("k0"), var("high"), var("deep"),
                var("row_strips"), self.cut.height, self.cut.pitch, self.slice,
            )
        return [Pack(
            0, start, line, step, self.left, ZERO, apart, var("high"), var("deep"), var("row_strips"), self.cut.height
        )]

    def left_start(self) -> Value:
        """The first element of the block's rows in this slice of k."""
        return var("matrix") * var("batch_a") + var("i0") * var("line") + var("k0") * var("step")

    def columns(self) -> For:
        """Every strip of the part meets all rows."""
        strips = min_(var("j0") + var("part"), idiv(var("n") + number(self.cut.width - 1), self.width))
        if self.form == "packed":
            at = (var("matrix") * var("batch_b") + var("j") * var("k") + var("k0")) * self.width
            inside = self.tiles("s", self.b, at, self.width, asks=self.asks)
            if self.finish is None:
                return For("j", var("j0"), strips, (inside,))
            body: tuple[Statement, ...] = (For("j", var("g0"), var("g0") + var("some"), (inside,)),)
        else:
            place = (var("j") - var("g0")) * self.apart(self.cut.width)
            inside = self.tiles("s", self.strip, place, self.width)
            body = (*self.pack_strips(), For("j", var("g0"), var("g0") + var("some"), (inside,)))
            if self.by_rows:
                body = (*self.pack_strips(), *self.tiles_by_rows())
            if self.by_lines:
                body = (*self.pack_strips(), self.tiles_by_lines())
            if self.by_groups:
                body = (*self.pack_strips(), self.tiles_by_groups())
            if self.keeps:
                body = (If(self.is_run(), (For("j", var("g0"), var("g0") + var("some"), self.kept_strip()),), body),)
        if self.form == "direct":    # strips that are not whole would be read past the end of memory
            at = var("matrix") * var("batch_b") + var("k0") * var("right_step") + var("d") * self.width
            whole = For("d", var("g0"), var("g0") + var("some"), (self.tiles("t", self.b, at, var("right_step"), "d"),))
            body = (If(ge(var("n"), (var("g0") + var("some")) * self.width), (whole,), body),)
        many = number(self.together)
        return For("group", ZERO, idiv(strips - var("j0") + number(self.together - 1), many), (
            Local("g0", var("j0") + var("group") * many),
            Local("some", min_(many, strips - var("g0"))),
            *body,
            *([] if self.by_lines or self.by_groups else self.finished(var("i0"), var("high"))),
        ))

    def finished(self, first: Value, high: Value) -> list[Statement]:
        """What becomes of the sums of a group of strips, once all of k was summed: they are still in the nearest cache,
        and rows of them are long enough to keep a processor busy with values that do not wait for each other."""
        if self.finish is None:
            return []
        corner = (first, var("g0") * self.width)
        at = var("matrix") * var("batch_c") + corner[0] * var("row") + corner[1]
        most = number(self.together * self.cut.width)
        wide = min_(var("some") * self.width, var("n") - corner[1])
        done: Statement = self.finish.loop(self.code, len(self.read), at, corner, high, wide, "f")
        if self.cut.is_narrow:     # of a known number of columns nothing is left over
            whole = self.finish.loop(self.code, len(self.read), at, corner, high, most, "fw")
            done = If(ge(wide, most), (whole,), (done,))
        return [If(ge(var("k0") + var("deep"), var("k")), (done,))]

    def tiles(
        self, name: str, right: int, at: Value, step: Value, strip: str = "j", asks: bool = False, first: Value = ZERO
    ) -> For:
        """All rows times the strip that begins at element `at` of operand `right`; the first few of them ask for the
        strip after it, which would come too late when it is read: it lies further away than in the second cache."""
        later = None
        if asks:
            line = LINE // ELEMENTS[self.code][1] // UNROLL       # elements asked for, by value of k
            passes = self.cut.width // line
            later = at + var("k") * self.width + min_(var(name), number(passes - 1)) * var("deep") * number(line)
        start = self.left_start() + var(name) * self.height * var("line")
        line = (0, start, var("line")) if self.in_lines else None
        tile = self.tile(var(name), var(strip), right, at, step, later, line=line)
        return For(name, first, var("row_strips"), (tile,))

    def pack_strips(self) -> list[Statement]:
        first, line, step = var("g0") * self.width, var("right_line"), var("right_step")
        row = idiv(var("k0"), number(2)) if self.pairs else var("k0")
        start = var("matrix") * var("batch_b") + first * line + row * step
        apart = self.apart(self.cut.width)
        if self.factors[1] is not None:
            return self.factors[1].pack(
                self.b, self.stage, self.strip, ZERO, apart, var("matrix"), first, var("k0"), var("n") - first,
                var("deep"), var("some"), self.cut.width, self.cut.width, self.slice,
            )
        return [Pack(
            self.b, start, ONE if self.pairs else line, step, self.strip, ZERO, apart, var("n") - first, var("deep"),
            var("some"), self.cut.width, self.pairs,
        )]

    def tiles_by_rows(self) -> list[Statement]:
        """Rows where they lie, each tile of them while all strips of the group meet it; then those that were packed."""
        s, j, rest = var("s"), var("j"), idiv(var("high"), self.height)
        place = (j - var("g0")) * self.apart(self.cut.width)
        start = self.left_start() + s * self.height * var("line")
        tile = self.tile(s, j, self.strip, place, self.width, line=(0, start, var("line")))
        last = self.tile(rest, j, self.strip, place, self.width, source=(self.left, ZERO, None))
        strips = var("g0"), var("g0") + var("some")
        return [
            For("s", ZERO, rest, (For("j", *strips, (tile,)),)),
            If(lt(rest, var("row_strips")), (For("j", *strips, (last,)),)),
        ]

    def tiles_by_lines(self) -> For:
        """Rows where they lie, each tile of them while all strips of the group meet it, and what becomes of its sums
        then."""
        s, j = var("s"), var("j")
        place = (j - var("g0")) * self.apart(self.cut.width)
        start = self.left_start() + s * self.height * var("line")
        tile = self.tile(s, j, self.strip, place, self.width, line=(0, start, var("line")))
        high = min_(self.height, var("high") - s * self.height)
        return For("s", ZERO, var("row_strips"), (
            For("j", var("g0"), var("g0") + var("some"), (tile,)),
            *self.finished(var("i0") + s * self.height, high),
        ))

    def tiles_by_groups(self) -> For:
        """Some strips of rows at a time, packed; each while all strips of columns meet it, and what becomes of its sums
        then."""
        s, j, few = var("s"), var("j"), number(ROW_GROUP)
        apart, first = self.apart(self.cut.pitch), var("pack") * few
        past = min_(first + few, var("row_strips"))
        start = self.left_start() + first * self.height * var("line")
        pack = Pack(
            0, start, var("line"), var("step"), self.left, ZERO, apart, var("high") - first * self.height, var("deep"),
            past - first, self.cut.height,
        )
        place = (j - var("g0")) * self.apart(self.cut.width)
        tile = self.tile(s, j, self.strip, place, self.width, source=(self.left, (s - first) * apart, None))
        high = min_(self.height, var("high") - s * self.height)
        return For("pack", ZERO, idiv(var("row_strips") + few - ONE, few), (
            pack,
            For("s", first, past, (
                For("j", var("g0"), var("g0") + var("some"), (tile,)),
                *self.finished(var("i0") + s * self.height, high),
            )),
        ))

    def kept_strip(self) -> tuple[Statement, ...]:
        """A strip whose columns are neighbours where they lie: the first rows meet it there and leave it packed."""
        first, whole = var("j") * self.width, ge(var("n"), (var("j") + ONE) * self.width)
        at = var("matrix") * var("batch_b") + first + var("k0") * var("right_step")
        plain = self.tile(ZERO, var("j"), self.strip, ZERO, self.width)
        kept = self.tile(
            ZERO, var("j"), self.b, at, var("right_step"), keep=(self.left, ZERO, self.strip, ZERO)
        )
        pack = Pack(
            self.b, at, ONE, var("right_step"), self.strip, ZERO, ZERO, var("n") - first, var("deep"), ONE,
            self.cut.width,
        )
        first_tile, others = If(whole, (kept,), (pack, plain)), self.tiles("s", self.strip, ZERO, self.width, first=ONE)
        if self.factors[0] is not None:
            return first_tile, others
        left = var("matrix") * var("batch_a") + var("i0") + var("r") * self.height + var("k0") * var("step")
        packed = var("r") * self.apart(self.cut.pitch)
        tile = self.tile(
            var("r"), var("j"), self.strip, ZERO, self.width, keep=(self.left, packed, self.strip, ZERO),
            source=(0, left, var("step")),
        )
        rest = idiv(var("high"), self.height)
        last = self.tile(rest, var("j"), self.strip, ZERO, self.width)
        own = (For("r", ONE, rest, (tile,)), If(lt(rest, var("row_strips")), (last,)))
        return first_tile, If(and_(var("in_place", "b1"), eq(var("j"), var("j0"))), own, (others,))

    def tile(
        self, s: Value, j: Value, right: int, right_at: Value, right_step: Value, later: Value | None = None,
        keep: tuple[int, Value, int, Value] | None = None, source: tuple[int, Value, Value | None] | None = None,
        line: tuple[int, Value, Value] | None = None,
    ) -> Multiply:
        """One tile of the result: of packed rows; or of a `source`, whose values of k are so far apart; or of rows that
        are a `line` apart."""
        corner = (var("i0") + s * self.height, j * self.width)
        at = var("matrix") * var("batch_c") + corner[0] * var("row") + corner[1]
        high, wide = min_(self.height, var("high") - s * self.height), min_(self.width, var("n") - corner[1])
        left, left_at, pitch = source or (line and (*line[:2], None)) or (
            self.left, s * self.apart(self.cut.pitch), None if keep is None else number(self.cut.pitch)
        )
        return Multiply(
            left, left_at, right, right_at, right_step, self.c, at, var("row"),
            high, wide, var("deep"), ne(var("k0"), ZERO), self.cut.height, self.cut.vectors,
            pitch, later, keep, line and line[2],
        )


class _SpanProduct(_Product):
    """The same where k goes through spans: a slice is several short ones, or an even part of a long one."""

    more_params = SPAN_PARAMS
    most_lines, longest = SPAN_STRIPS, SPAN_SLICE
    may_keep, may_group = False, False

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

    def left_start(self) -> Value:
        return var("i0") * var("line") + var("span0") * var("left_apart") + var("inside") * var("step")

    def pack_rows(self) -> list[Statement]:
        line, step, nth = var("line"), var("step"), var("a.nth")
        start = self.left_start() + nth * var("left_apart")
        place = nth * var("long") * number(self.cut.pitch)
        pack = Pack(
            0, start, line, step, self.left, place, self.apart(self.cut.pitch),
            var("high"), var("long"), var("row_strips"), self.cut.height,
        )
        return [For("a.nth", ZERO, var("several"), (pack,))]

    def pack_strips(self) -> list[Statement]:
        first, line, step, nth = var("g0") * self.width, var("right_line"), var("right_step"), var("b.nth")
        start = first * line + (var("span0") + nth) * var("right_apart") + var("inside") * step
        place = nth * var("long") * self.width
        pack = Pack(
            1, start, line, step, self.strip, place, self.apart(self.cut.width),
            var("n") - first, var("long"), var("some"), self.cut.width,
        )
        return [For("b.nth", ZERO, var("several"), (pack,))]


class Finish:
    """What becomes of a sum before it is stored for good: `value(sum, reads)`, of operands over the rows and columns of
    the result. `columns` are the classes of their strides along columns (factor.py): those of class 0 have one
    number for every row. `out`: the type of the result where it is not that of the sums, which lie elsewhere then."""

    def __init__(
        self,
        name: str,
        codes: tuple[str, ...],
        value: Callable[[Value, list[Value]], Value],
        columns: tuple[int, ...] = (),
        out: str | None = None,
    ) -> None:
        self.name, self.codes, self.value, self.out = name, codes, value, out
        self.columns = columns or (2,) * len(codes)
        self.params = tuple(f"{what}{k}" for k in range(len(codes)) for what in ("f_row", "f_col", "f_batch"))
        self.params += () if out is None else ("out_row", "out_batch")

    def loop(
        self, code: str, first: int, at: Value, corner: tuple[Value, Value], high: Value, wide: Value, prefix: str
    ) -> Statement:
        """Over rows of complete sums. Operands are numbered from `first` on: what is read, the result, the sums where
        they are no result."""
        r, q = var(f"{prefix}.r"), var(f"{prefix}.q")
        reads = []
        for k, (own, kind) in enumerate(zip(self.codes, self.columns, strict=True)):
            place = var("matrix") * var(f"f_batch{k}") + (corner[0] + r) * var(f"f_row{k}")
            reads.append(load(first + k, place + along(corner[1] + q, kind, f"f_col{k}"), own))
        result = first + len(self.codes)
        place = at + r * var("row") + q
        target, sums = (result, place), result
        if self.out is not None:
            row = var("matrix") * var("out_batch") + (corner[0] + r) * var("out_row")
            target, sums = (result, row + corner[1] + q), result + 1
        store = Store(*target, self.value(load(sums, place, code), reads))
        return For(r.attr, ZERO, high, (For(q.attr, ZERO, wide, (store,), vector=True),))
