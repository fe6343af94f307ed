"""Fourier transforms of many rows at once, a lane to each: a kernel for all lengths of the same small factors.

Enters: a kind, a complex dtype and the radices of a length. Leaves: the nest of a self-sorting (Stockham) transform
whose stages are data, so that another length of the same radices compiles nothing, and the tables it reads. Rows lie in
scratch memory as [point][part][lane], so that every stage is whole vectors, whatever its radix. An inverse transform is
a forward one with its parts exchanged on the way in and out. Refuses nothing: callers ask `smooth` first.

The kinds say how rows come and go:

    rows, columns     dense rows; elements of a row `stride` apart, lanes next to each other
    rotated           columns, each result multiplied by an entry of a table: the first half of a long transform
    across            dense rows in, columns out: its second half
    half, whole       two real rows to a lane; half their spectra, or all of them
    real              half spectra of two rows to a lane, to real rows
    chirp             rows of any length as a convolution (Bluestein) of one that `smooth` accepts

A prime p whose p - 1 has small factors is a cyclic convolution of p - 1 points (Rader): for every kind, its stages are
those of two transforms of p - 1, between three that put points in another order and multiply.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..codegen.targets import vector_bits
from ..loops.expr import (
    PART,
    Value,
    and_,
    bitcast,
    cast,
    complex_,
    const,
    eq,
    fma,
    idiv,
    imag,
    irem,
    le,
    load,
    lt,
    min_,
    ne,
    neg,
    real,
    select,
    var,
)
from ..loops.nest import Assign, For, If, Local, Nest, Operand, Statement, Store, rows
from .butterflies import Pair, rotated, times
from .fourier_tables import FIELDS, ORDERED, PRODUCT, RETURNED, SUMMED, prime_block, smallest_factor

ZERO, ONE = const(0, "i64"), const(1, "i64")
KINDS = ("rows", "columns", "rotated", "across", "half", "whole", "real", "chirp")
IN, ROOTS, STAGES, OUT, ROOM = range(5)
SIZES = ("n", "given", "count", "stages", "scale", "swap", "room", "grain")
PLACES = ("inner", "in_outer", "in_stride", "out_outer", "out_stride", "tail")


def lanes(code: str) -> int:
    """Rows that are transformed together: one register of parts."""
    return max(vector_bits() // 8 // (4 if code == "c64" else 8), 2)


def room_for(n: int, code: str) -> int:
    """Parts of scratch memory that a buffer of a chunk needs, of which there are two;
    they do not begin in the same set of a cache."""
    return (n + 9) * 2 * lanes(code)


# --- small transforms in registers ------------------------------------------------------------------------------------


def small_transform(xs: list[Pair]) -> list[Pair]:
    """The forward transform of a few numbers."""
    r = len(xs)
    if r == 1:
        return xs
    if r == 2:
        (a, b), (c, d) = xs
        return [(a + c, b + d), (a - c, b - d)]
    if smallest_factor(r) == r:
        return prime_transform(xs)
    p = 4 if r % 4 == 0 and r > 4 else smallest_factor(r)
    q = r // p
    inner = [small_transform(xs[a::p]) for a in range(p)]
    result: list[Pair] = [xs[0]] * r
    for k in range(q):
        column = [rotated(inner[a][k], root(a * k, r)) for a in range(p)]
        for m, y in enumerate(small_transform(column)):
            result[k + q * m] = y
    return result


def root(e: int, r: int) -> complex:
    """exp(-2 pi i e / r), exact on the axes."""
    e %= r
    if 4 * e % r == 0:
        return (1, -1j, -1, 1j)[4 * e // r]
    return complex(math.cos(2 * math.pi * e / r), -math.sin(2 * math.pi * e / r))


def prime_transform(xs: list[Pair]) -> list[Pair]:
    """An odd number of points: sums and differences of opposite ones, which share their products."""
    r, half = len(xs), len(xs) // 2
    sums = [(xs[q][0] + xs[r - q][0], xs[q][1] + xs[r - q][1]) for q in range(1, half + 1)]
    gaps = [(xs[q][0] - xs[r - q][0], xs[q][1] - xs[r - q][1]) for q in range(1, half + 1)]
    result = [xs[0]] * r
    total = xs[0]
    for s in sums:
        total = (total[0] + s[0], total[1] + s[1])
    result[0] = total
    for m in range(1, half + 1):
        even, odd = xs[0], None
        for q in range(1, half + 1):
            c, s = (const(f(2 * math.pi * (m * q % r) / r), xs[0][0].dtype) for f in (math.cos, math.sin))
            even = (fma(sums[q - 1][0], c, even[0]), fma(sums[q - 1][1], c, even[1]))
            gap = gaps[q - 1]
            odd = (gap[0] * s, gap[1] * s) if odd is None else (fma(gap[0], s, odd[0]), fma(gap[1], s, odd[1]))
        result[m], result[r - m] = (even[0] + odd[1], even[1] - odd[0]), (even[0] - odd[1], even[1] + odd[0])
    return result


def stored(tag: str, places: list[Value], values: list[Value]) -> list[Statement]:
    """All values, then all stores: scratch memory is read and written,
    so a store between them would have them computed again."""
    names = [f"{tag}.y{k}" for k in range(len(values))]
    outs: list[Statement] = [Local(name, value) for name, value in zip(names, values, strict=True)]
    return outs + [Store(ROOM, place, var(name, v.dtype)) for place, name, v in zip(places, names, values, strict=True)]


# --- the nest ---------------------------------------------------------------------------------------------------------


def transform_nest(code: str, kind: str, forms: tuple[tuple[int, bool], ...]) -> Nest:
    """Blocks of as many rows as there are lanes, transformed one block at a time by stages of these forms.

    A kernel of all forms would serve every length, and take a second to generate.
    """
    return Writer(code, kind, forms).nest()


class Writer:
    def __init__(self, code: str, kind: str, forms: tuple[tuple[int, bool], ...]) -> None:
        self.code, self.part, self.kind, self.lanes, self.forms = code, PART[code], kind, lanes(code), forms
        self.width, self.point = const(self.lanes, "i64"), const(2 * self.lanes, "i64")
        self.scale = cast(bitcast(var("scale"), "f64"), self.part)

    @property
    def given_code(self) -> str:
        """The type of what comes in."""
        return self.part if self.kind in ("half", "whole") else self.code

    @property
    def result_code(self) -> str:
        return self.part if self.kind == "real" else self.code

    @property
    def takes_dense_rows(self) -> bool:
        """Whether rows come in for columns to go out, so that every lane has one."""
        return self.kind == "across"

    def nest(self) -> Nest:
        operands = (Operand(self.given_code), Operand(self.code), Operand("i64"), Operand(self.result_code),
                    Operand(self.part))  # fmt: skip
        room = idiv(var("begin"), var("grain")) * (var("room") * const(2, "i64"))
        body: list[Statement] = [Local("source", room), Local("target", room + var("room"))]
        body += [*self.where(), *self.read_in(), self.stages(), *self.write_out()]
        return Nest(f"fourier_{self.kind}", operands, (*SIZES, *PLACES), rows(*body))

    def read_in(self) -> list[Statement]:
        return {"half": self.real_in, "whole": self.real_in, "real": self.spectra_in, "chirp": self.chirp_in,
                "columns": self.columns_in, "rotated": self.columns_in}.get(self.kind, self.rows_in)()  # fmt: skip

    def write_out(self) -> list[Statement]:
        return {"half": self.spectra_out, "whole": self.spectra_out, "real": self.real_out, "chirp": self.chirp_out,
                "rows": self.rows_out}.get(self.kind, self.columns_out)()  # fmt: skip

    def where(self) -> list[Statement]:
        """Which rows a block holds. The last block of columns begins early, so that it is full."""
        i = var("i")
        if self.kind in ("columns", "rotated", "across"):
            blocks = idiv(var("inner") + self.width - ONE, self.width)
            first = min_(irem(i, var("blocks")) * self.width, var("inner") - self.width)
            return [Local("blocks", blocks), Local("outer", idiv(i, var("blocks"))), Local("first", first)]
        each = 2 * self.lanes if self.kind in ("half", "whole", "real") else self.lanes
        return [Local("first", i * const(each, "i64"))]

    # Scratch

    def at(self, buffer: str, point: Value, lane: Value, plane: Value | None = None) -> Value:
        place = var(buffer) + point * self.point + lane
        return place if plane is None else place + plane

    def read(self, buffer: str, point: Value, lane: Value) -> Pair:
        """A number that is not exchanged."""
        return load(ROOM, self.at(buffer, point, lane), self.part), load(
            ROOM, self.at(buffer, point, lane, self.width), self.part
        )

    def write(self, buffer: str, lane: Value, *points: tuple[Value, Pair]) -> list[Statement]:
        places = [self.at(buffer, point, lane, plane) for point, _ in points for plane in (None, self.width)]
        return stored(lane.attr, places, [part for _, z in points for part in z])

    def exchanged_read(self, point: Value, lane: Value, flip: bool = False) -> Pair:
        """A number of a transform that may be an inverse one."""
        swap = ONE - var("swap") if flip else var("swap")
        low, high = swap * self.width, (ONE - swap) * self.width
        return load(ROOM, self.at("source", point, lane, low), self.part), load(
            ROOM, self.at("source", point, lane, high), self.part
        )

    def exchanged_write(self, lane: Value, *points: tuple[Value, Pair]) -> list[Statement]:
        low, high = var("swap") * self.width, (ONE - var("swap")) * self.width
        places = [self.at("source", point, lane, plane) for point, _ in points for plane in (low, high)]
        return stored(lane.attr, places, [part for _, z in points for part in z])

    def across_lanes(self, name: str, body: list[Statement]) -> For:
        return For(name, ZERO, self.width, tuple(body), vector=True)

    # In

    def block_of(self, name: str, body: list[Statement]) -> For:
        """A loop over the lanes of a square of points and lanes, all points of one written out."""
        return For(name, ZERO, self.width, tuple(body), vector=True, transposed=True)

    def squares_in(
        self, limit: Value, reads: Callable, write: Callable, full: Value, slow: Callable, tag: str = "q"
    ) -> list[Statement]:
        """Rows to lanes: `reads(lane, point)` is a row's element,
        `write(lane, (point, number)...)` puts it in scratch memory.

        Whole squares of rows and points are exchanged in registers; `slow(begin)` is for the points from there on."""
        lane, tile, count = var(f"l{tag}"), var(f"t{tag}"), var(f"squares_{tag}")
        points = [var(f"at_{tag}") + const(k, "i64") for k in range(self.lanes)]
        square = self.block_of(lane.attr, write(lane, *[(point, reads(lane, point)) for point in points]))
        return [self.squares(count.attr, limit, full),
                For(tile.attr, ZERO, count, (self.square_at(tag, limit), square)),
                *slow(select(lt(ZERO, count), limit, ZERO))]  # fmt: skip

    def squares(self, name: str, limit: Value, full: Value) -> Local:
        """How many squares cover `limit` points; none where there are fewer than one has."""
        enough = idiv(limit + self.width - ONE, self.width)
        return Local(name, select(full, select(le(self.width, limit), enough, ZERO), ZERO))

    def square_at(self, tag: str, limit: Value) -> Local:
        """The last square begins early, so that it is whole."""
        return Local(f"at_{tag}", min_(var(f"{'t' if tag[0] == 'q' else 'u'}{tag}") * self.width, limit - self.width))

    def row(self, number: Value, stride: Value) -> Value:
        """Where a row begins; lanes without one repeat the last."""
        return min_(number, var("count") - ONE) * stride

    def rows_in(self) -> list[Statement]:
        lane, k = var("l"), var("c")
        start = (
            var("outer") * var("in_outer") + var("first") * var("n")
            if self.takes_dense_rows
            else var("first") * var("n")
        )

        def read(lane: Value, point: Value) -> Pair:
            z = load(IN, start + lane * var("n") + point, self.code)
            return real(z), imag(z)

        def slow(begin: Value) -> list[Statement]:
            base = start + lane * var("n") if self.takes_dense_rows else self.row(var("first") + lane, var("n"))
            z = load(IN, var("from") + k, self.code)
            inner = For("c", begin, var("n"), tuple(self.exchanged_write(lane, (k, (real(z), imag(z))))))
            return [For("l", ZERO, self.width, (Local("from", base), inner))]

        return self.squares_in(var("n"), read, self.exchanged_write, self.is_full(), slow)

    def is_full(self, each: int = 1) -> Value:
        """Whether every lane of the block stands for a row."""
        return (
            eq(ZERO, ZERO)
            if self.takes_dense_rows
            else le(var("first") + const(each * self.lanes, "i64"), var("count"))
        )

    def columns_in(self) -> list[Statement]:
        k, lane = var("c"), var("l")
        z = load(IN, var("from") + lane, self.code)
        base = Local("from", var("outer") * var("in_outer") + k * var("in_stride") + var("first"))
        return [
            For(
                "c", ZERO, var("n"), (base, self.across_lanes("l", self.exchanged_write(lane, (k, (real(z), imag(z))))))
            )
        ]

    def real_in(self) -> list[Statement]:
        """One row of every lane as real parts, then the other as imaginary ones."""
        lane, k, n, two, which = var("l"), var("c"), var("n"), const(2, "i64"), var("which")

        def write(lane: Value, *points: tuple[Value, Value]) -> list[Statement]:
            places = [self.at("source", point, lane, var("plane")) for point, _ in points]
            return stored(lane.attr, places, [x for _, x in points])

        def slow(begin: Value) -> list[Statement]:
            base = Local("from", self.row(var("first") + lane * two + which, n))
            inner = For("c", begin, n, tuple(write(lane, (k, load(IN, var("from") + k, self.part)))))
            return [For("l", ZERO, self.width, (base, inner))]

        start = (var("first") + which) * n
        result = self.squares_in(
            n, lambda lane, point: load(IN, start + lane * (n * two) + point, self.part), write, self.is_full(2), slow
        )
        return [self.both([Local("plane", which * self.width), *result])]

    def chirp_in(self) -> list[Statement]:
        lane, k, swap, given = var("l"), var("c"), eq(var("swap"), ONE), var("given")

        def spun(place: Value, point: Value) -> Pair:
            z = load(IN, place + point, self.code)
            return times((select(swap, imag(z), real(z)), select(swap, real(z), imag(z))), self.root(point))

        def slow(begin: Value) -> list[Statement]:
            inner = For("c", begin, given, tuple(self.write("source", lane, (k, spun(var("from"), k)))))
            return [For("l", ZERO, self.width, (Local("from", self.row(var("first") + lane, given)), inner))]

        nothing = const(0.0, self.part)
        rest = self.across_lanes("l2", self.write("source", var("l2"), (var("c2"), (nothing, nothing))))
        return [
            *self.squares_in(given, lambda lane, point: spun(var("first") * given + lane * given, point),
                             lambda lane, *points: self.write("source", lane, *points), self.is_full(), slow),
            For("c2", given, var("n"), (rest,)),
        ]  # fmt: skip

    def spectra_in(self) -> list[Statement]:
        """Z = A + i B of two half spectra, and its mirrored half;
        what 0 and n / 2 hold beside a real part counts as 0."""
        given, which, two = var("given"), var("which"), const(2, "i64")
        body = self.spectrum_in(
            (var("first") + which) * given, given * two, self.is_full(2),
            lambda lane: self.row(var("first") + lane * two + which, given),
        )  # fmt: skip
        return [self.both(body), self.joined()]

    def both(self, body: list[Statement]) -> For:
        """The same for either row of a lane; written out twice it would take twice as long to generate."""
        return For("which", ZERO, const(2, "i64"), tuple(body))

    def spectrum_in(self, start: Value, step: Value, full: Value, row: Callable) -> list[Statement]:
        """One of the two rows of every lane, as it is: `step` apart from `start` on where all lanes have one, else at
        `row(lane)`."""
        given, which = var("given"), var("which")

        def number(place: Value) -> Pair:
            z = load(IN, place, self.code)
            return real(z), imag(z)

        def write(lane: Value, *points: tuple[Value, Pair]) -> list[Statement]:
            return self.write("target", lane, *[(which * given + point, z) for point, z in points])

        def slow(begin: Value) -> list[Statement]:
            lane, k = var("l"), var("c")
            inner = For("c", begin, given, tuple(write(lane, (k, number(var("from") + k)))))
            return [For("l", ZERO, self.width, (Local("from", row(lane)), inner))]

        return self.squares_in(given, lambda lane, point: number(start + lane * step + point), write, full, slow)

    def joined(self) -> For:
        given, p, v = var("given"), var("p"), var("v")
        nothing = const(0.0, self.part)
        keep = select(eq(p, ZERO), nothing, select(eq(p * const(2, "i64"), var("n")), nothing, const(1.0, self.part)))
        (ar, ai), (br, bi) = self.read("target", p, v), self.read("target", given + p, v)
        kept = var("kept", self.part)
        ai, bi = ai * kept, bi * kept
        ends = self.exchanged_write(v, (p, (ar - bi, ai + br)), (var("n") - p, (ar + bi, br - ai)))
        return For("p", ZERO, given, (Local("kept", keep), self.across_lanes("v", ends)))

    # Out

    def valid(self, each: int = 1) -> Value:
        """Lanes of this block that stand for rows."""
        left = var("count") - var("first")
        left = left if each == 1 else idiv(left + const(each - 1, "i64"), const(each, "i64"))
        return min_(left, self.width)

    def squares_out(
        self, limit: Value, read: Callable, to: Callable, full: Value, slow: Callable, tag: str = "r"
    ) -> list[Statement]:
        """Lanes to rows: `read(point, lane)` is the number there, `to(lane)` where its row begins."""
        point, tile, count = var(f"p{tag}"), var(f"u{tag}"), var(f"squares_{tag}")
        stores: list[Statement] = []
        for lane in range(self.lanes):
            value = read(var(f"at_{tag}") + point, const(lane, "i64"))
            stores.append(Store(OUT, to(const(lane, "i64")) + var(f"at_{tag}") + point, value))
        return [self.squares(count.attr, limit, full),
                For(tile.attr, ZERO, count, (self.square_at(tag, limit), self.block_of(point.attr, stores))),
                *slow(select(lt(ZERO, count), limit, ZERO))]  # fmt: skip

    def rows_out(self) -> list[Statement]:
        lane, k = var("l3"), var("c3")

        def value(k: Value, lane: Value) -> Value:
            z = self.exchanged_read(k, lane)
            return complex_(z[0] * self.scale, z[1] * self.scale)

        def slow(begin: Value) -> list[Statement]:
            inner = For("c3", begin, var("n"), (Store(OUT, var("to") + k, value(k, lane)),))
            return [For("l3", ZERO, self.valid(), (Local("to", (var("first") + lane) * var("n")), inner))]

        return self.squares_out(var("n"), value, lambda lane: (var("first") + lane) * var("n"), self.is_full(), slow)

    def columns_out(self) -> list[Statement]:
        lane, k = var("l3"), var("c3")
        z = self.exchanged_read(k, lane)
        names: list[Statement] = [Local("to", var("outer") * var("out_outer") + k * var("out_stride") + var("first"))]
        if self.kind in ("rotated", "unmirrored"):
            names.append(Local("turns", var("tail") + k * var("inner") + var("first")))
            w = load(ROOTS, var("turns") + lane, self.code)   # conjugated for an inverse transform
            z = times(z, (real(w), select(eq(var("swap"), ONE), neg(imag(w)), imag(w))))
        store = Store(OUT, var("to") + lane, complex_(z[0] * self.scale, z[1] * self.scale))
        return [For("c3", ZERO, var("n"), (*names, self.across_lanes("l3", [store])))]

    def real_out(self) -> list[Statement]:
        n, two, which = var("n"), const(2, "i64"), var("which")
        # Real parts are the first row's and imaginary ones the second's, or the other way if parts are exchanged.
        plane = Local("plane", (var("swap") + which - var("swap") * which * two) * self.width)

        def value(k: Value, lane: Value) -> Value:
            return load(ROOM, self.at("source", k, lane, var("plane")), self.part) * self.scale

        result = self.paired_out("a", n, value, lambda lane: (var("first") + lane * two + which) * n, which)
        return [self.both([plane, *result])]

    def paired_out(self, tag: str, limit: Value, value: Callable, to: Callable, which: Value) -> list[Statement]:
        """Row `which` of the two of every lane, of `limit` numbers: whole squares, then what is left."""
        lane, k = var(f"l3{tag}"), var(f"c3{tag}")

        def slow(begin: Value) -> list[Statement]:
            inner = For(k.attr, begin, limit, (Store(OUT, var(f"to{tag}") + k, value(k, lane)),))
            is_row = lt(var("first") + lane * const(2, "i64") + which, var("count"))
            return [For(lane.attr, ZERO, self.valid(2), (If(is_row, (Local(f"to{tag}", to(lane)), inner)),))]

        return self.squares_out(limit, value, to, self.is_full(2), slow, f"r{tag}")

    def spectra_out(self) -> list[Statement]:
        """The spectra of both rows, from Z(k) and Z(n - k): in the other buffer, then row by row."""
        n, count = var("n"), idiv(var("n"), const(2, "i64")) + ONE
        p, v = var("p"), var("v")
        mirror = Local("mirror", select(eq(p, ZERO), ZERO, n - p))
        a, b = self.read("source", p, v), self.read("source", var("mirror"), v)
        half = cast(bitcast(var("scale"), "f64"), self.part) * const(0.5, self.part)
        one = ((a[0] + b[0]) * half, (a[1] - b[1]) * half)
        two = ((a[1] + b[1]) * half, (b[0] - a[0]) * half)
        both = self.write("target", v, (p, one), (var("bins") + p, two))
        split = For("p", ZERO, var("bins"), (mirror, self.across_lanes("v", both)))
        return [
            Local("bins", count),
            split,
            self.both(self.spectrum_row("a", var("which"), var("which") * var("bins"))),
        ]

    def spectrum_row(self, tag: str, which: Value, begin: Value) -> list[Statement]:
        """One of the two spectra of every lane, which lies from `begin` on; all of it has a mirrored half."""
        width = var("bins") if self.kind == "half" else var("n")

        def to(lane: Value) -> Value:
            return (var("first") + lane * const(2, "i64") + which) * width

        result = self.paired_out(
            tag, var("bins"), lambda k, lane: complex_(*self.read("target", begin + k, lane)), to, which
        )
        if self.kind == "whole":
            m, lane = var(f"m{tag}"), var(f"l4{tag}")
            z = self.read("target", begin + (var("n") - m), lane)
            mirrored = For(m.attr, var("bins"), var("n"), (Store(OUT, to(lane) + m, complex_(z[0], neg(z[1]))),))
            is_row = lt(var("first") + lane * const(2, "i64") + which, var("count"))
            result.append(For(lane.attr, ZERO, self.valid(2), (If(is_row, (mirrored,)),)))
        return result

    def chirp_out(self) -> list[Statement]:
        """After two transforms parts are exchanged once more than `swap` says."""
        lane, k, swap, given = var("l3"), var("c3"), eq(var("swap"), ONE), var("given")

        def value(k: Value, lane: Value) -> Value:
            z = self.read("source", k, lane)
            z = times((z[1], z[0]), self.root(k))
            return complex_(select(swap, z[1], z[0]) * self.scale, select(swap, z[0], z[1]) * self.scale)

        def slow(begin: Value) -> list[Statement]:
            inner = For("c3", begin, given, (Store(OUT, var("to") + k, value(k, lane)),))
            return [For("l3", ZERO, self.valid(), (Local("to", (var("first") + lane) * given), inner))]

        return self.squares_out(given, value, lambda lane: (var("first") + lane) * given, self.is_full(), slow)

    # Stages

    def root(self, index: Value) -> Pair:
        w = load(ROOTS, index, self.code)
        return real(w), imag(w)

    def stages(self) -> For:
        s = var("s")
        numbers = [
            Local(name, load(STAGES, s * const(FIELDS, "i64") + const(k, "i64"), "i64"))
            for k, name in enumerate(("radix", "groups", "run", "roots"))
        ]
        known: list[tuple[Value, list[Statement]]] = []
        if self.kind == "chirp":
            known.append((eq(var("radix"), const(PRODUCT, "i64")), self.product_stage()))
        if (ORDERED, True) in self.forms:
            for r, stage in ((ORDERED, self.order), (SUMMED, self.summed_products), (RETURNED, self.return_order)):
                known.append((eq(var("radix"), const(r, "i64")), stage()))
        for r, turns in self.forms:
            if r > 0:
                test = eq(var("radix"), const(r, "i64"))
                if (r, not turns) in self.forms:
                    test = and_(test, (ne if turns else eq)(var("groups"), ONE))
                known.append((test, self.stage(r, turns)))
        if (0, True) in self.forms:
            known.append((eq(ZERO, ZERO), self.prime_stage()))
        choice: tuple[Statement, ...] = tuple(known[-1][1]) if known else ()   # the last needs no test
        for test, stage in reversed(known[:-1]):
            choice = (If(test, tuple(stage), choice),)
        swap = (Local("previous", var("source")), Assign("source", var("target")), Assign("target", var("previous")))
        return For("s", ZERO, var("stages"), (*numbers, *choice, *swap))

    def stage(self, r: int, turns: bool) -> list[Statement]:
        if not turns or r != min(form for form, turning in self.forms if turning and form > 0):
            return self.runs(r, turns, f"{r}{'t' if turns else 'f'}")
        # The last stage, of the smallest radix, has runs of one point: no loop over them.
        return [If(eq(var("run"), ONE), tuple(self.runs(r, True, f"{r}s", True)), tuple(self.runs(r, True, f"{r}t")))]

    def runs(self, r: int, turns: bool, tag: str, single: bool = False) -> list[Statement]:
        """A stage, its names ending in `tag`; `single`: of runs of one point."""
        j, k, v = var(f"j{tag}"), var(f"k{tag}"), var(f"v{tag}")
        run, groups = var("run"), var("groups")
        base = [
            Local(f"i{tag}.{m}", var("source") + ((j * const(r, "i64") + const(m, "i64")) * run) * self.point)
            for m in range(r)
        ]
        goal = [
            Local(f"o{tag}.{m}", var("target") + ((j + const(m, "i64") * groups) * run) * self.point) for m in range(r)
        ]
        along = v if single else k * self.point + v
        xs = [self.numbers(var(f"i{tag}.{m}") + along) for m in range(r)]
        names: list[Statement] = []
        if turns:
            for m in range(1, r):
                w = self.root(var("roots") + j * const(r - 1, "i64") + const(m - 1, "i64"))
                names += [Local(f"w{tag}.{m}r", w[0]), Local(f"w{tag}.{m}i", w[1])]
                xs[m] = times(xs[m], (var(f"w{tag}.{m}r", self.part), var(f"w{tag}.{m}i", self.part)))
        places = [var(f"o{tag}.{m}") + along + plane for m in range(r) for plane in (ZERO, self.width)]
        lanes = self.across_lanes(v.attr, stored(tag, places, [part for z in small_transform(xs) for part in z]))
        inner = lanes if single else For(k.attr, ZERO, run, (lanes,))
        if not turns:
            return [Local(j.attr, ZERO), *base, *goal, inner]
        return [For(j.attr, ZERO, groups, (*names, *base, *goal, inner))]

    def numbers(self, place: Value) -> Pair:
        return load(ROOM, place, self.part), load(ROOM, place + self.width, self.part)

    def prime_stage(self) -> list[Statement]:
        """Any odd radix. Rows are turned, opposite ones become their sum and difference, in place; then results are
        sums of products of those, a few pairs of opposite results at a time, which share what they read."""
        radix, run, groups = var("radix"), var("run"), var("groups")
        j, k, q, v = var("jp"), var("kp"), var("qp"), var("vp")
        few = const(prime_block(), "i64")
        half = idiv(radix - ONE, const(2, "i64"))
        table = var("roots") + idiv(half + few - ONE, few) * few * half + j * (radix - ONE) - ONE

        def row(number: Value, lane: Value) -> Value:
            return var("source") + ((j * radix + number) * run + k) * self.point + lane

        names: list[Statement] = []
        turns: list[Pair] = []
        for side, number in (("a", q), ("b", radix - q)):
            names += [Local(f"wp{side}{part}", x) for part, x in zip("ri", self.root(table + number), strict=True)]
            turns.append((var(f"wp{side}r", self.part), var(f"wp{side}i", self.part)))
        a, b = (times(self.numbers(row(x, v)), w) for x, w in zip((q, radix - q), turns, strict=True))
        places = [row(q, v), row(q, v) + self.width, row(radix - q, v), row(radix - q, v) + self.width]
        both = stored("vp", places, [a[0] + b[0], a[1] + b[1], a[0] - b[0], a[1] - b[1]])
        fold = For("qp", ONE, var("middle"), (*names, For("kp", ZERO, run, (self.across_lanes("vp", both),))))
        each = For("kp", ZERO, run, (self.prime_sum(row), self.prime_pairs(row)))
        return [Local("middle", half + ONE), For("jp", ZERO, groups, (fold, each))]

    def prime_sum(self, row: Callable) -> For:
        """The first result: the sum of all rows."""
        q, u = var("qz"), var("vz")
        x, first = self.numbers(row(q, u)), self.numbers(row(ZERO, u))
        total = (var("zr", self.part), var("zi", self.part))
        add = For("qz", ONE, var("middle"), (Assign("zr", total[0] + x[0]), Assign("zi", total[1] + x[1])))
        goal = var("target") + (var("jp") * var("run") + var("kp")) * self.point + u
        return self.across_lanes("vz", [
            Local("zr", first[0]), Local("zi", first[1]), add, Store(ROOM, goal, total[0]),
            Store(ROOM, goal + self.width, total[1])])  # fmt: skip

    def prime_pairs(self, row: Callable) -> For:
        """Results m and radix - m, as many m together as registers hold; the last few begin early."""
        block, radix, t, q, u = prime_block(), var("radix"), var("tp"), var("qs"), var("vs")
        few = const(block, "i64")
        first = min_(ONE + t * few, var("middle") - few)
        sums, gaps, start = self.numbers(row(q, u)), self.numbers(row(radix - q, u)), self.numbers(row(ZERO, u))
        begin: list[Statement] = []
        steps: list[Statement] = []
        ends: list[Statement] = []
        zero = const(0.0, self.part)
        for e in range(block):
            m = var("mp") + const(e, "i64")
            names = [f"{kind}{e}" for kind in ("er", "ei", "or", "oi")]
            er, ei, odd_r, odd_i = (var(name, self.part) for name in names)
            begin += [Local(name, x) for name, x in zip(names, (*start, zero, zero), strict=True)]
            c, s = self.root(var("wave") + q * few + const(e, "i64"))     # cos and -sin of 2 pi m q / radix
            steps += [
                Assign(names[0], fma(sums[0], c, er)), Assign(names[1], fma(sums[1], c, ei)),
                Assign(names[2], fma(gaps[0], s, odd_r)), Assign(names[3], fma(gaps[1], s, odd_i)),
            ]  # fmt: skip
            for goal, z in ((m, (er - odd_i, ei + odd_r)), (radix - m, (er + odd_i, ei - odd_r))):
                to = var("target") + ((var("jp") + goal * var("groups")) * var("run") + var("kp")) * self.point + u
                ends += [Store(ROOM, to, z[0]), Store(ROOM, to + self.width, z[1])]
        add = For("qs", ONE, var("middle"), tuple(steps))
        count = idiv(var("middle") - ONE + few - ONE, few)
        wave = var("roots") + (t * (var("middle") - ONE) - ONE) * few
        return For(
            "tp", ZERO, count, (Local("mp", first), Local("wave", wave), self.across_lanes("vs", [*begin, add, *ends]))
        )

    def product_stage(self) -> list[Statement]:
        """All points times a table; parts exchanged, since the transform that follows is an inverse one."""
        k, v = var("kx"), var("vx")
        w = self.root(var("roots") + k)
        z = times(self.read("source", k, v), (var("wxr", self.part), var("wxi", self.part)))
        return [
            For(
                "kx",
                ZERO,
                var("n"),
                (
                    Local("wxr", w[0]),
                    Local("wxi", w[1]),
                    self.across_lanes("vx", self.write("target", v, (k, (z[1], z[0])))),
                ),
            )
        ]

    # Primes as cyclic convolutions. Behind the points that stages transform lies x[0], from the products on X[0].

    def order(self) -> list[Statement]:
        """Points in the order of powers."""
        k, v, u = var("ka"), var("va"), var("ua")
        run = var("run")
        moved = self.across_lanes("va", self.write("target", v, (k, self.read("source", var("from_a"), v))))
        first = self.read("source", ZERO, u)
        places = [self.at(buffer, run, u, plane) for buffer in ("source", "target") for plane in (None, self.width)]
        return [
            For("ka", ZERO, run, (Local("from_a", load(STAGES, var("roots") + k, "i64")), moved)),
            self.across_lanes("ua", stored("ua", places, [*first, *first])),
        ]

    def summed_products(self) -> list[Statement]:
        """All points times a table, parts exchanged; x[0] is added to the first, which adds it to every result."""
        k, v, u = var("kb"), var("vb"), var("ub")
        run = var("run")
        w = self.root(var("roots") + k)
        z = times(self.read("source", k, v), (var("wbr", self.part), var("wbi", self.part)))
        products = self.across_lanes("vb", self.write("target", v, (k, (z[1], z[0]))))
        x, total, product = self.read("source", run, u), self.read("source", ZERO, u), self.read("target", ZERO, u)
        sums = (x[0] + total[0], x[1] + total[1])
        places = [
            self.at(buffer, point, u, plane)
            for buffer, point in (("target", ZERO), ("source", run), ("target", run))
            for plane in (None, self.width)
        ]
        values = [product[0] + x[1], product[1] + x[0], *sums, *sums]
        return [
            For("kb", ZERO, run, (Local("wbr", w[0]), Local("wbi", w[1]), products)),
            self.across_lanes("ub", stored("ub", places, values)),
        ]

    def return_order(self) -> list[Statement]:
        """Result m is that of the power -m; parts exchanged back."""
        k, v, u = var("kc"), var("vc"), var("uc")
        z = self.read("source", k, v)
        moved = self.across_lanes("vc", self.write("target", v, (var("to_c"), (z[1], z[0]))))
        first = self.write("target", u, (ZERO, self.read("source", var("run"), u)))
        place = Local("to_c", load(STAGES, var("roots") + (var("run") - k), "i64"))
        return [For("kc", ZERO, var("run"), (place, moved)), self.across_lanes("uc", first)]
