"""Fourier transforms of many rows at once, a lane to each: a kernel for all lengths of the same small factors.

Enters: a kind, a complex dtype and the radices of a length. Leaves: the nest of a self-sorting (Stockham) transform
whose stages are data, so that another length of the same radices compiles nothing, and the tables it reads. Rows lie in
scratch memory as [point][part][lane], so that every stage is whole vectors, whatever its radix. An inverse transform is
a forward one with its parts exchanged on the way in and out. Refuses nothing: callers ask `smooth` first.

The kinds say how rows come and go:

    rows, columns     dense rows; elements of a row `stride` apart, lanes next to each other
    rotated           columns, each result multiplied by an entry of a table: the first half of a long transform
    across            dense rows in, columns out: its second half
    half, whole       real rows, read as complex ones of half as many points; half their spectra, or all of them
    real              half spectra, to real rows, likewise. No lane holds two rows: digits of a quiet one would be lost
                      beside a loud one, and one that is not a number would spoil the other
    odd_half, ...     the same of an odd number of points, as complex ones
    chirp             rows of any length as a convolution (Bluestein) of one that `smooth` accepts

A prime p whose p - 1 has small factors is a cyclic convolution of p - 1 points (Rader): for every kind, its stages are
those of two transforms of p - 1, between three that put points in another order and multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen.text.targets import vector_bits
from ...loops.expr import (
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
from ...loops.nest import Assign, For, If, Local, Nest, Operand, Statement, Store, rows
from .small import Held, Pair, small_transform, times
from .tables import FIELDS, ORDERED, PRODUCT, RETURNED, SUMMED, prime_block

ZERO, ONE = const(0, "i64"), const(1, "i64")
LINE = 64    # bytes of a cache line
COLUMNS = ("columns", "rotated", "across")   # kinds whose rows are the middle dim of three
ODD = ("odd_half", "odd_whole", "odd_real")
KINDS = ("rows", "columns", "rotated", "across", "half", "whole", "real", *ODD, "chirp")
IN, ROOTS, STAGES, OUT, ROOM = range(5)
SIZES = ("n", "given", "count", "stages", "scale", "swap", "room", "grain")
PLACES = ("inner", "in_outer", "in_stride", "out_outer", "out_stride", "tail")


def lanes(code: str) -> int:
    """Rows that are transformed together: one register of parts."""
    return max(vector_bits() // 8 // (4 if code == "c64" else 8), 2)


def pieces_of(kind: str, code: str, inner: int) -> int:
    """Registers of columns that are transformed together: as many as a cache line fills, or one."""
    each = LINE // (8 if code == "c64" else 16)
    return each // lanes(code) if kind in COLUMNS and inner >= each > lanes(code) else 1


def room_for(n: int, code: str, pieces: int = 1) -> int:
    """Parts of scratch memory that a buffer of a chunk needs, of which there are two;
    they do not begin in the same set of a cache."""
    return (n + 9) * 2 * lanes(code) * pieces


# --- small transforms in registers ------------------------------------------------------------------------------------


def stored(tag: str, places: list[Value], values: list[Value]) -> list[Statement]:
    """All values, then all stores: scratch memory is read and written,
    so a store between them would have them computed again."""
    names = [f"{tag}.y{k}" for k in range(len(values))]
    outs: list[Statement] = [Local(name, value) for name, value in zip(names, values, strict=True)]
    return outs + [Store(ROOM, place, var(name, v.dtype)) for place, name, v in zip(places, names, values, strict=True)]


# --- the nest ---------------------------------------------------------------------------------------------------------


Forms = tuple[tuple[int, bool], ...]


def transform_nest(code: str, kind: str, forms: Forms, pieces: int = 1, between: Forms = ()) -> Nest:
    """Blocks of as many rows as there are lanes in `pieces` registers, transformed one block at a time by stages of
    these forms; `between`: of columns, those of them that are neither first nor last.

    A kernel of all forms would serve every length, and take a second to generate.
    """
    return Writer(code, kind, forms, pieces, between).nest()


class Writer:
    def __init__(self, code: str, kind: str, forms: Forms, pieces: int = 1, between: Forms = ()) -> None:
        self.code, self.part, self.kind, self.forms, self.pieces = code, PART[code], kind, forms, pieces
        self.lanes, self.side = lanes(code) * pieces, lanes(code)     # of a block, and of a square of registers
        self.width, self.point = const(self.lanes, "i64"), const(2 * self.lanes, "i64")
        self.scale = cast(bitcast(var("scale"), "f64"), self.part)
        turning = [r for r, turns in forms if turns]
        # Columns need no exchange between lanes, so their first stage reads them and their last one writes them.
        whole = bool(turning) and min(r for r, _ in forms) > 1
        self.reads = whole and kind in ("columns", "rotated")
        self.writes = whole and kind in COLUMNS
        self.first, self.last = next((r for r, turns in forms if not turns), 0), min(turning, default=0)
        if self.writes:
            self.forms = between if self.reads else ((self.first, False), *between)

    @property
    def given_code(self) -> str:
        """The type of what comes in."""
        return self.part if self.kind in ("odd_half", "odd_whole") else self.code

    @property
    def result_code(self) -> str:
        return self.part if self.kind == "odd_real" else self.code

    @property
    def takes_dense_rows(self) -> bool:
        """Whether rows come in for columns to go out, so that every lane has one."""
        return self.kind == "across"

    def nest(self) -> Nest:
        operands = (Operand(self.given_code), Operand(self.code), Operand("i64"), Operand(self.result_code),
                    Operand(self.part))
        room = idiv(var("begin"), var("grain")) * (var("room") * const(2, "i64"))
        body: list[Statement] = [Local("source", room), Local("target", room + var("room"))]
        stages = [self.stages()] if self.forms else []
        body += [*self.where(), *self.read_in(), *stages, *self.write_out()]
        return Nest(f"fourier_{self.kind}", operands, (*SIZES, *PLACES), rows(*body))

    def read_in(self) -> list[Statement]:
        return {"real": self.spectra_in, "odd_real": self.odd_spectra_in, "chirp": self.chirp_in,
                "columns": self.columns_in, "rotated": self.columns_in}.get(self.kind, self.rows_in)()

    def write_out(self) -> list[Statement]:
        if self.kind in ("rows", "real", *ODD):
            return self.rows_out()
        return {"half": self.spectra_out, "whole": self.spectra_out, "chirp": self.chirp_out}.get(
            self.kind, self.columns_out
        )()

    def where(self) -> list[Statement]:
        """Which rows a block holds. The last block of columns begins early, so that it is full."""
        i = var("i")
        if self.kind in COLUMNS:
            blocks = idiv(var("inner") + self.width - ONE, self.width)
            first = min_(irem(i, var("blocks")) * self.width, var("inner") - self.width)
            return [Local("blocks", blocks), Local("outer", idiv(i, var("blocks"))), Local("first", first)]
        return [Local("first", i * self.width)]

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

    def negated_write(self, lane: Value, *points: tuple[Value, Pair]) -> list[Statement]:
        """The same for a last stage that negates imaginary parts instead of exchanging parts."""
        return self.write("source", lane, *[(point, (z[0], z[1] * var("sign", self.part))) for point, z in points])

    def across_lanes(self, name: str, body: Sequence[Statement], transposed: bool = False) -> For:
        """A loop over all lanes, a register at a time."""
        if self.pieces == 1:
            return For(name, ZERO, self.width, tuple(body), vector=True, transposed=transposed)
        piece, lane, side = f"{name}.piece", f"{name}.lane", const(self.side, "i64")
        here = Local(name, var(piece) * side + var(lane))
        inner = For(lane, ZERO, side, (here, *body), vector=True, transposed=transposed)
        return For(piece, ZERO, const(self.pieces, "i64"), (inner,))

    # In

    def block_of(self, name: str, body: list[Statement]) -> For:
        """A loop over the lanes of a square of points and lanes, all points of one written out."""
        return self.across_lanes(name, body, transposed=True)

    def squares_in(
        self, limit: Value, reads: Callable, write: Callable, full: Value, slow: Callable, tag: str = "q"
    ) -> list[Statement]:
        """Rows to lanes: `reads(lane, point)` is a row's element,
        `write(lane, (point, number)...)` puts it in scratch memory.

        Whole squares of rows and points are exchanged in registers; `slow(begin)` is for the points from there on."""
        lane, tile, count = var(f"l{tag}"), var(f"t{tag}"), var(f"squares_{tag}")
        points = [var(f"at_{tag}") + const(k, "i64") for k in range(self.side)]
        square = self.block_of(lane.attr, write(lane, *[(point, reads(lane, point)) for point in points]))
        return [self.squares(count.attr, limit, full),
                For(tile.attr, ZERO, count, (self.square_at(tag, limit), square)),
                *slow(select(lt(ZERO, count), limit, ZERO))]

    def squares(self, name: str, limit: Value, full: Value) -> Local:
        """How many squares cover `limit` points; none where there are fewer than one has."""
        side = const(self.side, "i64")
        enough = idiv(limit + side - ONE, side)
        return Local(name, select(full, select(le(side, limit), enough, ZERO), ZERO))

    def square_at(self, tag: str, limit: Value) -> Local:
        """The last square begins early, so that it is whole."""
        side = const(self.side, "i64")
        return Local(f"at_{tag}", min_(var(f"{'t' if tag[0] == 'q' else 'u'}{tag}") * side, limit - side))

    def row(self, number: Value, stride: Value) -> Value:
        """Where a row begins; lanes without one repeat the last."""
        return min_(number, var("count") - ONE) * stride

    def number(self, place: Value) -> Pair:
        """What comes in there."""
        z = load(IN, place, self.given_code)
        return (real(z), imag(z)) if self.given_code == self.code else (z, const(0.0, self.part))

    def rows_in(self) -> list[Statement]:
        lane, k = var("l"), var("c")
        start = (
            var("outer") * var("in_outer") + var("first") * var("n")
            if self.takes_dense_rows
            else var("first") * var("n")
        )

        def read(lane: Value, point: Value) -> Pair:
            return self.number(start + lane * var("n") + point)

        def slow(begin: Value) -> list[Statement]:
            base = start + lane * var("n") if self.takes_dense_rows else self.row(var("first") + lane, var("n"))
            inner = For("c", begin, var("n"), tuple(write(lane, (k, self.number(var("from") + k)))))
            return [For("l", ZERO, self.width, (Local("from", base), inner))]

        write = self.negated_write if self.writes else self.exchanged_write
        before = [self.sign()] if self.writes else []
        return [*before, *self.squares_in(var("n"), read, write, self.is_full(), slow)]

    def is_full(self) -> Value:
        """Whether every lane of the block stands for a row."""
        return eq(ZERO, ZERO) if self.takes_dense_rows else le(var("first") + self.width, var("count"))

    def columns_in(self) -> list[Statement]:
        k, lane = var("c"), var("l")
        column = Local("column", var("outer") * var("in_outer") + var("first"))
        if self.reads:
            return [column, *self.first_stage()]
        z = load(IN, var("from") + lane, self.code)
        base = Local("from", var("column") + k * var("in_stride"))
        put = self.across_lanes("l", self.exchanged_write(lane, (k, (real(z), imag(z)))))
        return [column, For("c", ZERO, var("n"), (base, put))]

    def first_stage(self) -> list[Statement]:
        """Columns to the results of their first stage, which has one group. What is exchanged elsewhere has its
        imaginary part negated here: either makes an inverse transform of a forward one."""
        k, v, r, run = var("kf"), var("vf"), self.first, var("run_f")
        base: list[Statement] = []
        for m in range(r):
            point = const(m, "i64") * run + k
            base.append(Local(f"if.{m}", var("column") + point * var("in_stride")))
            base.append(Local(f"of.{m}", var("target") + point * self.point))
        numbers = [load(IN, var(f"if.{m}") + v, self.code) for m in range(r)]
        held = Held("f", r)
        results = small_transform([(real(z), imag(z) * var("sign", self.part)) for z in numbers], held)
        places = [var(f"of.{m}") + v + plane for m in range(r) for plane in (ZERO, self.width)]
        lanes = self.across_lanes(v.attr, held.statements + stored("f", places, [part for z in results for part in z]))
        return [Local("run_f", load(STAGES, const(2, "i64"), "i64")), self.sign(),
                For(k.attr, ZERO, run, (*base, lanes)), *self.buffers_exchanged("first")]

    def sign(self) -> Local:
        """Of imaginary parts, which an inverse transform negates."""
        return Local("sign", select(eq(var("swap"), ONE), const(-1.0, self.part), const(1.0, self.part)))

    def buffers_exchanged(self, tag: str) -> list[Statement]:
        previous = f"previous_{tag}"
        return [Local(previous, var("source")), Assign("source", var("target")), Assign("target", var(previous))]

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
        ]

    def spectra_in(self) -> list[Statement]:
        """Half spectra, in the other buffer, to those of pairs of neighbours: of X(p) and X(n - p) the sum S and the
        difference D, times the root, give Z(p) = S + i D and Z(n - p) = conj(S) + i conj(D). What the first and the
        last hold beside a real part counts as 0."""
        lane, k, n, given, p, v = var("l"), var("c"), var("n"), var("given"), var("p"), var("v")

        def slow(begin: Value) -> list[Statement]:
            inner = For("c", begin, given, tuple(self.write("target", lane, (k, self.number(var("from") + k)))))
            return [For("l", ZERO, self.width, (Local("from", self.row(var("first") + lane, given)), inner))]

        rows_read = self.squares_in(
            given, lambda lane, point: self.number((var("first") + lane) * given + point),
            lambda lane, *points: self.write("target", lane, *points), self.is_full(), slow,
        )
        (ar, ai), (br, bi) = self.read("target", p, v), self.read("target", n - p, v)
        kept = var("kept", self.part)
        ai, bi = ai * kept, bi * kept
        keep = select(eq(p, ZERO), const(0.0, self.part), const(1.0, self.part))
        total, (dr, di) = (ar + br, ai - bi), times((ar - br, ai + bi), (self.turn[0], neg(self.turn[1])))
        ends = self.exchanged_write(v, (p, (total[0] - di, total[1] + dr)), (n - p, (total[0] + di, dr - total[1])))
        joined = For("p", ZERO, self.middle, (Local("kept", keep), *self.turned_by(p), self.across_lanes("v", ends)))
        return [*rows_read, joined]

    def odd_spectra_in(self) -> list[Statement]:
        """Half spectra, doubled but for the first number, and zeros: the real part of what that transforms to is what
        the whole spectrum would."""
        lane, k, given = var("l"), var("c"), var("given")

        def doubled(place: Value, point: Value) -> Pair:
            times_two = select(eq(point, ZERO), const(1.0, self.part), const(2.0, self.part))
            z = self.number(place + point)
            return z[0] * times_two, z[1] * times_two

        def slow(begin: Value) -> list[Statement]:
            inner = For("c", begin, given, tuple(self.exchanged_write(lane, (k, doubled(var("from"), k)))))
            return [For("l", ZERO, self.width, (Local("from", self.row(var("first") + lane, given)), inner))]

        nothing = const(0.0, self.part)
        rest = self.across_lanes("l2", self.write("source", var("l2"), (var("c2"), (nothing, nothing))))
        return [
            *self.squares_in(given, lambda lane, point: doubled((var("first") + lane) * given, point),
                             self.exchanged_write, self.is_full(), slow),
            For("c2", given, var("n"), (rest,)),
        ]

    @property
    def middle(self) -> Value:
        """Pairs of a point and its mirror image, the first its own."""
        return idiv(var("n"), const(2, "i64")) + ONE

    @property
    def turn(self) -> Pair:
        return var("turn_r", self.part), var("turn_i", self.part)

    def turned_by(self, point: Value) -> list[Statement]:
        """The root between the spectra of every second number, from the table behind the roots of the stages."""
        w = self.root(var("tail") + point)
        return [Local("turn_r", w[0]), Local("turn_i", w[1])]

    # Out

    def valid(self) -> Value:
        """Lanes of this block that stand for rows."""
        return min_(var("count") - var("first"), self.width)

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
                *slow(select(lt(ZERO, count), limit, ZERO))]

    def rows_out(self) -> list[Statement]:
        lane, k = var("l3"), var("c3")
        width = self.middle if self.kind == "odd_half" else var("n")

        def value(k: Value, lane: Value) -> Value:
            z = self.exchanged_read(k, lane)
            return z[0] * self.scale if self.kind == "odd_real" else complex_(z[0] * self.scale, z[1] * self.scale)

        def slow(begin: Value) -> list[Statement]:
            inner = For("c3", begin, width, (Store(OUT, var("to") + k, value(k, lane)),))
            return [For("l3", ZERO, self.valid(), (Local("to", (var("first") + lane) * width), inner))]

        return self.squares_out(width, value, lambda lane: (var("first") + lane) * width, self.is_full(), slow)

    def columns_out(self) -> list[Statement]:
        if self.writes:
            return self.last_stage()
        lane, k = var("l3"), var("c3")
        z = self.exchanged_read(k, lane)
        names: list[Statement] = [Local("to", var("outer") * var("out_outer") + k * var("out_stride") + var("first"))]
        if self.kind in ("rotated", "unmirrored"):
            names.append(Local("turns", var("tail") + k * var("inner") + var("first")))
            w = load(ROOTS, var("turns") + lane, self.code)   # conjugated for an inverse transform
            z = times(z, (real(w), select(eq(var("swap"), ONE), neg(imag(w)), imag(w))))
        store = Store(OUT, var("to") + lane, complex_(z[0] * self.scale, z[1] * self.scale))
        return [For("c3", ZERO, var("n"), (*names, self.across_lanes("l3", [store])))]

    def last_stage(self) -> list[Statement]:
        """Results of the last stage but one to columns, by the last one, which has runs of one point."""
        r, j, v, groups, sign = self.last, var("je"), var("ve"), var("groups_e"), var("sign", self.part)
        number = (var("stages") - ONE) * const(FIELDS, "i64")
        before: list[Statement] = [
            Local("groups_e", load(STAGES, number + ONE, "i64")),
            Local("roots_e", load(STAGES, number + const(3, "i64"), "i64")),
            Local("to", var("outer") * var("out_outer") + var("first")),
        ]
        names: list[Statement] = []
        xs = [self.numbers(var("source") + (j * const(r, "i64") + const(m, "i64")) * self.point + v) for m in range(r)]
        for m in range(1, r):
            w = self.root(var("roots_e") + j * const(r - 1, "i64") + const(m - 1, "i64"))
            names += [Local(f"we.{m}r", w[0]), Local(f"we.{m}i", w[1])]
            xs[m] = times(xs[m], (var(f"we.{m}r", self.part), var(f"we.{m}i", self.part)))
        held = Held("e", r)
        results = small_transform(xs, held)
        stores: list[Statement] = list(held.statements)
        for m, z in enumerate(results):
            point = j + const(m, "i64") * groups
            names.append(Local(f"oe.{m}", var("to") + point * var("out_stride")))
            if self.kind == "rotated":
                names.append(Local(f"te.{m}", var("tail") + point * var("inner") + var("first")))
                turn = load(ROOTS, var(f"te.{m}") + v, self.code)
                z = times(z, (real(turn), imag(turn)))
            re, im = z[0] * self.scale, z[1] * (self.scale * sign)
            stores.append(Store(OUT, var(f"oe.{m}") + v, complex_(re, im)))
        return [*before, For(j.attr, ZERO, groups, (*names, self.across_lanes(v.attr, stores)))]

    def spectra_out(self) -> list[Statement]:
        """Spectra of real rows from those of pairs of neighbours: Z(p) and Z(n - p) give the spectra E and O of every
        second number, and these X(p) = E + w O and X(n - p) = conj(E - w O). In the other buffer, then row by row."""
        n, p, v = var("n"), var("p"), var("v")
        a, b = self.read("source", p, v), self.read("source", var("mirror"), v)
        half = self.scale * const(0.5, self.part)
        even = ((a[0] + b[0]) * half, (a[1] - b[1]) * half)
        odd = times(((a[1] + b[1]) * half, (b[0] - a[0]) * half), self.turn)
        ends = self.write(
            "target", v, (p, (even[0] + odd[0], even[1] + odd[1])), (n - p, (even[0] - odd[0], odd[1] - even[1]))
        )
        mirror = Local("mirror", select(eq(p, ZERO), ZERO, n - p))
        split = For("p", ZERO, self.middle, (mirror, *self.turned_by(p), self.across_lanes("v", ends)))
        return [Local("bins", n + ONE), split, *self.spectrum_rows()]

    def spectrum_rows(self) -> list[Statement]:
        """The spectrum of every lane; all of it has a mirrored half."""
        bins, lane, k, m = var("bins"), var("l3"), var("c3"), var("m3")
        width = bins if self.kind == "half" else var("n") * const(2, "i64")

        def value(k: Value, lane: Value) -> Value:
            return complex_(*self.read("target", k, lane))

        def slow(begin: Value) -> list[Statement]:
            inner = For("c3", begin, bins, (Store(OUT, var("to") + k, value(k, lane)),))
            return [For("l3", ZERO, self.valid(), (Local("to", (var("first") + lane) * width), inner))]

        result = self.squares_out(bins, value, lambda lane: (var("first") + lane) * width, self.is_full(), slow)
        if self.kind == "whole":
            z = self.read("target", width - m, lane)
            mirrored = For("m3", bins, width, (Store(OUT, var("to") + m, complex_(z[0], neg(z[1]))),))
            result.append(For("l3", ZERO, self.valid(), (Local("to", (var("first") + lane) * width), mirrored)))
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
        for test, body in reversed(known[:-1]):
            choice = (If(test, tuple(body), choice),)
        begin, end = ONE if self.reads else ZERO, var("stages") - ONE if self.writes else var("stages")
        return For("s", begin, end, (*numbers, *choice, *self.buffers_exchanged("s")))

    def stage(self, r: int, turns: bool) -> list[Statement]:
        if self.writes or not turns or r != min(form for form, turning in self.forms if turning and form > 0):
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
        held = Held(tag, r)
        results = [part for z in small_transform(xs, held) for part in z]
        lanes = self.across_lanes(v.attr, held.statements + stored(tag, places, results))
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
            Store(ROOM, goal + self.width, total[1])])

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
            ]
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
