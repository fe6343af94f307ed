"""Fourier transforms of long real rows in two steps that each do half of what complex rows would need.

Enters: what `planners/fourier/transform.py` takes, for a row of n = n1 n2 real numbers seen as n1 rows of n2. Leaves:
the nests of the two steps, forward and back. Columns of real numbers go two to a lane, and of their spectra half is
kept; the row's spectrum is mirrored, so what those n1 // 2 + 1 rows do not give is the conjugate of what they do. n1
and n2 may be odd.

    folded            real columns in; half their spectra, each number multiplied by an entry of a table
    mirrored          dense rows in; the first half of the row's spectrum, from columns and mirrored columns
    mirrored_all      the same, all of it
    unmirrored        the first half of a spectrum in, as columns and mirrored columns; columns, multiplied by a table
    unfolded          half spectra in, dense rows, two to a lane; columns of real numbers
"""

from __future__ import annotations

from collections.abc import Callable

from ...loops.expr import Value, complex_, const, eq, idiv, imag, irem, load, min_, neg, real, select, var
from ...loops.nest import For, Local, Nest, Statement, Store
from .small import Pair, times
from .transform import IN, ONE, OUT, ROOTS, ZERO, Forms, Writer

KINDS = ("folded", "mirrored", "mirrored_all", "unmirrored", "unfolded")


def transform_nest(code: str, kind: str, forms: Forms) -> Nest:
    """The nest of one step, of stages of these forms."""
    return _RealWriter(code, kind, forms).nest()


class _RealWriter(Writer):
    @property
    def given_code(self) -> str:
        return self.part if self.kind == "folded" else self.code

    @property
    def result_code(self) -> str:
        return self.part if self.kind == "unfolded" else self.code

    @property
    def takes_dense_rows(self) -> bool:
        return self.kind in ("mirrored", "mirrored_all")

    def where(self) -> list[Statement]:
        """Which columns a block holds: as many as lanes, or twice that. The last block begins early, so that it is
        full."""
        each = const(self.lanes * (2 if self.kind in ("folded", "unfolded") else 1), "i64")
        blocks = idiv(var("inner") + each - ONE, each)
        first = min_(irem(var("i"), var("blocks")) * each, var("inner") - each)
        return [Local("blocks", blocks), Local("outer", idiv(var("i"), var("blocks"))), Local("first", first)]

    def read_in(self) -> list[Statement]:
        if self.kind == "folded":
            return self.real_columns_in()
        if self.kind == "unmirrored":
            return self.mirrored_in()
        return self.half_rows_in() if self.kind == "unfolded" else self.rows_in()

    def write_out(self) -> list[Statement]:
        if self.kind == "folded":
            return self.half_columns_out()
        if self.kind == "unmirrored":
            return self.columns_out()
        return self.real_columns_out() if self.kind == "unfolded" else self.mirrored_out()

    def turned(self, z: Pair, place: Value) -> Pair:
        w = load(ROOTS, place, self.code)
        return times(z, (real(w), imag(w)))

    def real_columns_in(self) -> list[Statement]:
        """The first half of the columns as real parts, the others as imaginary ones."""
        k, lane = var("c"), var("l")
        z = (load(IN, var("from") + lane, self.part), load(IN, var("from") + self.width + lane, self.part))
        base = Local("from", var("outer") * var("in_outer") + k * var("in_stride") + var("first"))
        return [For("c", ZERO, var("n"), (base, self.across_lanes("l", self.write("source", lane, (k, z)))))]

    def half_columns_out(self) -> list[Statement]:
        """Both columns' spectra, from Z(k) and Z(n - k)."""
        n, p, v = var("n"), var("p"), var("v")
        a, b = self.read("source", p, v), self.read("source", var("mirror"), v)
        half = self.scale * const(0.5, self.part)
        one = ((a[0] + b[0]) * half, (a[1] - b[1]) * half)
        two = ((a[1] + b[1]) * half, (b[0] - a[0]) * half)
        names = [
            Local("mirror", select(eq(p, ZERO), ZERO, n - p)),
            Local("to", var("outer") * var("out_outer") + p * var("out_stride") + var("first")),
            Local("turns", var("tail") + p * var("inner") + var("first")),
        ]
        stores = [
            Store(OUT, var("to") + at + v, complex_(*self.turned(z, var("turns") + at + v)))
            for at, z in ((ZERO, one), (self.width, two))
        ]
        bins = idiv(n, const(2, "i64")) + ONE
        return [For("p", ZERO, bins, (*names, self.across_lanes("v", stores)))]

    def mirrored_out(self) -> list[Statement]:
        """Columns of the second half go to their mirrored places, conjugated. What is its own mirror image is written
        twice, last by its own column, so that its digits do not depend on which block is done first."""
        k, lane = var("c3"), var("l3")
        z = self.exchanged_read(k, lane)
        z = (z[0] * self.scale, z[1] * self.scale)
        row = Local("row", var("outer") * var("out_outer"))
        column = Local("column", k * var("out_stride") + var("first"))
        end = var("row") + var("n") * var("out_stride") - var("column")
        conjugate = complex_(z[0], neg(z[1]))
        mirrored = self.across_lanes("l3", [Store(OUT, end - lane, conjugate)])
        direct = self.across_lanes("l3", [Store(OUT, var("row") + var("column") + lane, complex_(*z))])
        middle = idiv(var("n") + ONE, const(2, "i64"))
        if self.kind == "mirrored":
            return [row, For("c3", middle, var("n"), (column, mirrored)), For("c3", ZERO, middle, (column, direct))]
        # The first of all has no mirrored place: where that would be the next row begins.
        is_first = eq(var("column") + lane, ZERO)
        edge = For("l3", ZERO, self.width, (Store(OUT, select(is_first, var("row"), end - lane), conjugate),))
        return [
            row,
            For("c3", ZERO, ONE, (column, edge)),
            For("c3", ONE, var("n"), (column, mirrored)),
            For("c3", ZERO, var("n"), (column, direct)),
        ]

    def mirrored_in(self) -> list[Statement]:
        k, lane = var("c"), var("l")
        row = var("outer") * var("in_outer")
        column = k * var("in_stride") + var("first")
        end = row + var("n") * var("in_stride") - column

        def columns(begin: Value, stop: Value, base: Value, place: Value, sign: int) -> For:
            z = load(IN, place, self.code)
            number = (real(z), imag(z) if sign > 0 else neg(imag(z)))
            body = self.across_lanes("l", self.exchanged_write(lane, (k, number)))
            return For("c", begin, stop, (Local("from", base), body))

        middle = idiv(var("n") + ONE, const(2, "i64"))
        return [
            columns(ZERO, middle, row + column, var("from") + lane, 1),
            columns(middle, var("n"), end, var("from") - lane, -1),
        ]

    def half_rows_in(self) -> list[Statement]:
        """Half spectra of two columns to a lane, in the other buffer, then joined."""
        given = var("given")
        start = var("outer") * var("in_outer") + (var("first") + var("which") * self.width) * given
        body = self.spectrum_in(start, given, eq(ZERO, ZERO), lambda lane: start + lane * given)
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

    def real_columns_out(self) -> list[Statement]:
        k, lane = var("c3"), var("l3")
        to = Local("to", var("outer") * var("out_outer") + k * var("out_stride") + var("first"))
        z = self.exchanged_read(k, lane)
        stores = [Store(OUT, var("to") + at + lane, x * self.scale) for at, x in ((ZERO, z[0]), (self.width, z[1]))]
        return [For("c3", ZERO, var("n"), (to, self.across_lanes("l3", stores)))]
