"""Reduction to bidiagonal form, and singular values from it: matrices that are read once for each column, and products.

Enters: a `Program` and column-major blocks of real numbers with no fewer rows than columns. Leaves: steps. Reflections
from both sides are made in panels and meet the rest of the matrix after each, A - V Y^T - X U^T. Within a panel the two
products that a column needs, A^T v and then A u, take one walk over A: once an element of the row is known, its column
is added while it is in the nearest cache; that u is the row less a number in its first place, over another, is made
good at the end (Howell, Demmel, Fulton, Hammarling and Marmol). Signs are LAPACK's (gebrd). Refuses (`suits` says so):
complex types, small and large matrices, much longer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import _C
from ...base.shape import is_below, reaches
from ...loops.expr import (
    Value,
    abs_,
    and_,
    bitcast,
    cast,
    const,
    copysign,
    fma,
    ge,
    idiv,
    le,
    load,
    lt,
    max_,
    min_,
    ne,
    neg,
    or_,
    select,
    shl,
    shr,
    var,
)
from ...loops.nest import Assign, For, If, Local, Nest, Statement, Store, operands, reduction, rows
from ...op.pack import BY_CODE
from ...op.step import Step
from . import reflections
from .lapack import Block, Program, Scratch, kernel_for, place
from .reflections import largest_of, wide

LEAST, MOST = 96, 1024      # columns from which the walk pays, and up to which one thread is enough for it
WIDTH = 32                  # columns of a panel
SHORT = 2.0**-60            # rows of less, against 1, are made longer before columns are added by them
TOGETHER = 4                # columns that are read together
ZERO, ONE = const(0, "i64"), const(1, "i64")
# Operands of the panel's kernel.
A, V, U, X, Y, D, E, TAU_V, TAU_U, NEAR = range(10)


def suits(p: Program, code: str, m: int, n: int) -> bool:
    """Whether matrices of m rows and no more columns, n, are reduced here."""
    fits = code in ("f32", "f64") and reaches(n, LEAST) and is_below(n, MOST + 1)
    # A longer matrix is a triangle first.
    return p.shares and fits and reaches(m - n, 0) and is_below(6 * m - 11 * n, 0)


def singular(p: Program, code: str, source: Block, s: Block, sides: tuple[Block, Block] | None, turned: bool,
             info: Block) -> Block:
    """Singular values of `source` (of its transpose, where `turned`) to `s`, and left and right vectors (as rows) to
    `sides`. The status of the input, which is -1 where numbers are not finite, comes back."""
    m, n = source.rows, source.cols
    dtype = BY_CODE[code]
    a = reflections.memory(p, code, m, n)
    p.copy(source, a)
    up, status = p.temporary(_C.float64), p.temporary(_C.int64)
    params = [m, n, a.batch, a.lead]
    _step(p, kernel_for(p.device, into_range_nest, code) if _runs(p) else None, (a, up, status), params)
    e = p.temporary(dtype, n)
    left, right = reduce(p, code, a, s, e)
    spare, triangle = Scratch(8), "L" if turned else "U"
    if sides is None:
        work = (Scratch(4 * n * 8 + 64), Scratch(8 * n * 8))
        p.call("bdsdc", code, triangle, "N", n, s, e, spare, 1, spare, 1, spare, spare, *work, info, work=n * n * 16)
    else:
        work = (Scratch((3 * n * n + 4 * n) * 8), Scratch(8 * n * 8))
        u, vh = ((memory.at(0, 0, n, n)) for memory in sides)
        p.call("bdsdc", code, triangle, "I", n, s, e, u, sides[0].lead, vh, sides[1].lead, spare, spare, *work, info,
               work=4 * n * n * n)
        _turn_back(p, code, sides, (right, left) if turned else (left, right))
    _step(p, kernel_for(p.device, scale_nest, code) if _runs(p) else None, (up, s), [n, s.batch])
    return status


def reduce(p: Program, code: str, a: Block, d: Block, e: Block) -> tuple[reflections.Panels, reflections.Panels]:
    """Diagonal and the numbers beside it to `d` and `e`; the reflections from the left, and those from the right, which
    leave the first place alone. `a` is overwritten."""
    m, n, dtype = a.rows, a.cols, BY_CODE[code]
    v, u = reflections.memory(p, code, m, n), reflections.memory(p, code, n, n)
    x, y = reflections.memory(p, code, m, WIDTH), reflections.memory(p, code, n, WIDTH)
    taus = p.temporary(dtype, n), p.temporary(dtype, n)
    near = p.temporary(dtype, 3 * n + m + 4 * WIDTH)
    blocks = (a, v, u, x, y, d, e, *taus, near)
    for j in range(0, n, WIDTH):
        w = min(WIDTH, n - j)
        sizes = [m, n, j, w]
        strides = [x_ for b in (a, v, u, x, y) for x_ in (b.batch, b.lead)] + [b.batch for b in blocks[D:]]
        _step(p, kernel_for(p.device, panel_nest, code) if _runs(p) else None, blocks, sizes + strides)
        g, rest = j + w, n - j - w
        if rest:
            target = a.at(g, g, m - g, rest)
            reflections.product(p, code, target, v.at(g, j, m - g, w), y.at(g, 0, rest, w).t, -1, 1)
            reflections.product(p, code, target, x.at(g, 0, m - g, w), u.at(g, j, rest, w).t, -1, 1)
    left = reflections.panels(p, code, v, taus[0])
    right = reflections.panels(p, code, u.at(1, 0, n - 1, n - 1), taus[1])
    return left, right


def _turn_back(p: Program, code: str, sides: tuple[Block, Block], made: tuple[reflections.Panels, ...]) -> None:
    """Vectors of the matrix, from those of its bidiagonal form."""
    for is_left, (c, panels) in zip((True, False), zip(sides, made, strict=True), strict=True):
        skipped = (c.rows if is_left else c.cols) - panels.v.rows
        part = c.at(skipped, 0, c.rows - skipped, c.cols) if is_left else c.at(0, skipped, c.rows, c.cols - skipped)
        reflections.weigh(p, code, panels)
        reflections.apply(p, code, panels, part, is_left, not is_left)


def _runs(p: Program) -> bool:
    return bool(p.count) and p.device.type != "meta"


def _step(p: Program, kernel: object, blocks: Sequence[Block], params: list[int]) -> None:
    if _runs(p):
        p.steps.append(Step(kernel, [place(b) for b in blocks], params, p.count, 0, -1))


# --- kernels ----------------------------------------------------------------------------------------------------------


def into_range_nest(code: str) -> Nest:
    """Every matrix times a power of two that brings its largest number near 1, so that products of two are in range; 0
    and a status where it is not finite."""
    i, m = var("i"), var("m")
    top, finite, up = var("top", "f64"), var("finite", "f64"), var("up", "f64")
    none, one = const(0.0, "f64"), const(1.0, "f64")

    def at(row: Value, col: Value) -> Value:
        return i * var("ab") + row + col * var("al")

    entry = load(0, at(var("x"), var("c")), code)
    look = For("c", ZERO, var("n"), (
        largest_of("x", ZERO, m, abs_(entry)), Assign("top", max_(wide(var("x.top", code)), top)),
        reduction("y", ZERO, m, ["rest"], [const(0.0, code)],
                  lambda acc: [fma(load(0, at(var("y"), var("c")), code), const(0.0, code), acc[0])],
                  lambda a, b: [a[0] + b[0]]),
        Assign("finite", finite + wide(var("rest", code)))))
    # 2^-k for a number of 2^k and more, up to 2^(k + 1)
    exponent = min_(shr(bitcast(top, "i64"), const(52, "i64")), const(2045, "i64"))
    inverse = bitcast(shl(const(2046, "i64") - exponent, const(52, "i64")), "f64")
    is_near = and_(ge(top, const(2.0**-16, "f64")), le(top, const(2.0**16, "f64")))
    far = select(is_near, one, inverse)
    place_ = at(var("r"), var("k"))
    is_bad = ne(finite, none)
    value = select(is_bad, const(0.0, code), cast(wide(load(0, place_, code)) * up, code))
    change = For("k", ZERO, var("n"), (For("r", ZERO, m, (Store(0, place_, value),), vector=True),))
    body = rows(Local("top", none), Local("finite", none), look, Local("up", far),
                If(or_(is_bad, ne(up, one)), (change,)), Store(1, i, up),
                Store(2, i, select(is_bad, const(-1, "i64"), ZERO)))
    return Nest("into_range", operands([], [code, "f64", "i64"]), ("m", "n", "ab", "al"), body)


def scale_nest(code: str) -> Nest:
    """The values of every matrix, divided by what it was multiplied with."""
    at = var("i") * var("sb") + var("k")
    value = cast(wide(load(1, at, code)) / load(0, var("i"), "f64"), code)
    return Nest("out_of_range", operands(["f64"], [code]), ("n", "sb"),
                rows(For("k", ZERO, var("n"), (Store(1, at, value),))))


def grouped(name: str, start: Value, stop: Value, body: Callable) -> list[Statement]:
    """`body(name, first, together)` for all of [start, stop): several together, then the rest one by one."""
    together = const(TOGETHER, "i64")
    groups = idiv(max_(stop - start, ZERO), together)
    return [
        For(f"{name}.g", ZERO, groups, tuple(body(f"{name}4", start + var(f"{name}.g") * together, TOGETHER))),
        For(f"{name}.e", start + groups * together, stop, tuple(body(f"{name}1", var(f"{name}.e"), 1))),
    ]


class Lines:
    """Columns of a column-major operand: `at(k)` is where column k begins."""

    def __init__(self, operand: int, base: Value, lead: Value) -> None:
        self.operand, self.base, self.lead = operand, base, lead

    def at(self, k: Value) -> Value:
        return self.base + k * self.lead


def dots(name: str, code: str, lines: Lines, count: Value, other: tuple[int, Value], span: tuple[Value, Value],
         target: Value) -> list[Statement]:
    """Products of the first columns with a vector, to NEAR[target ..]."""

    def body(own: str, first: Value, together: int) -> list[Statement]:
        r, sums = var(f"{own}.r"), [var(f"{own}.s{q}", code) for q in range(together)]
        bases = [Local(f"{own}.b{q}", lines.at(first + const(q, "i64"))) for q in range(together)]
        fold = reduction(
            r.attr, *span, [x.attr for x in sums], [const(0.0, code)] * together,
            lambda acc: [fma(load(lines.operand, var(b.name) + r, code), load(other[0], other[1] + r, code), x)
                         for b, x in zip(bases, acc, strict=True)],
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)])
        stores = [Store(NEAR, target + first + const(q, "i64"), x) for q, x in enumerate(sums)]
        return [*bases, fold, *stores]

    return grouped(name, ZERO, count, body)


def combined(name: str, code: str, lines: Lines, count: Value, weights: Value, target: tuple[int, Value],
             span: tuple[Value, Value], scale: Value | None = None) -> list[Statement]:
    """The first columns times NEAR[weights ..] (times `scale`), added to a vector."""

    def body(own: str, first: Value, together: int) -> list[Statement]:
        r = var(f"{own}.r")
        found: list[Statement] = []
        total = load(target[0], target[1] + r, code)
        for q in range(together):
            weight = load(NEAR, weights + first + const(q, "i64"), code)
            found.append(Local(f"{own}.b{q}", lines.at(first + const(q, "i64"))))
            found.append(Local(f"{own}.w{q}", weight if scale is None else weight * scale))
            total = fma(load(lines.operand, var(f"{own}.b{q}") + r, code), var(f"{own}.w{q}", code), total)
        return [*found, For(r.attr, *span, (Store(target[0], target[1] + r, total),), vector=True)]

    return grouped(name, ZERO, count, body)


def reflected(code: str, source: tuple[int, Value], pivot: Value, stop: Value, kept: tuple[int, Value],
              outs: tuple[tuple[int, Value], tuple[int, Value]]) -> list[Statement]:
    """The reflection of a vector from `pivot` on to its first number: its vector, written out, goes to `kept`, the
    number and the scale to `outs`. Leaves the locals of `length_of`, `turned`, `inverse` and `tau`."""
    alpha, turned, up, tau = var("alpha", "f64"), var("turned", "f64"), var("up", "f64"), var("tau", code)
    one, none = const(1.0, "f64"), const(0.0, code)
    moves = ne(var("moves", "f64"), const(0.0, "f64"))
    scaled = cast(wide(load(source[0], source[1] + var("y"), code)) * up * var("inverse", "f64"), code)
    return [
        *reflections.length_of(code, source[1], pivot, stop, source[0]),
        Local("turned", neg(copysign(var("length", "f64"), alpha))),
        Local("tau", select(moves, cast((turned - alpha) / turned, code), none)),
        Local("inverse", select(moves, one / (alpha - turned), one)),
        Store(*outs[0], cast(select(moves, turned, alpha) / up, code)),
        Store(*outs[1], tau),
        For("o", ZERO, pivot, (Store(kept[0], kept[1] + var("o"), none),), vector=True),
        Store(kept[0], kept[1] + pivot, const(1.0, code)),
        For("y", pivot + ONE, stop, (Store(kept[0], kept[1] + var("y"), scaled),), vector=True),
    ]


def panel_nest(code: str) -> Nest:
    """Columns j .. j + w of every matrix, and as many rows."""
    i, m, n, c, g = (var(name) for name in ("i", "m", "n", "c", "g"))
    base = {k: i * var(f"b{k}") for k in range(10)}
    a, v, u, x, y = (Lines(k, base[k] if k in (A, X, Y) else base[k] + var("j") * var(f"l{k}"), var(f"l{k}"))
                     for k in (A, V, U, X, Y))
    # Parts of the near memory: the row, what is taken from it and from products, their sum, and four short ones.
    row, less, taken, total = (base[NEAR] + var("n") * const(k, "i64") for k in range(4))
    short = [total + m + const(k * WIDTH, "i64") for k in range(4)]
    vector, after = v.at(c), g + ONE

    def entries(name: str, targets: list[tuple[int, Lines]], place_: Value) -> For:
        """The row `place_` of narrow matrices, to the short parts."""
        stores = [Store(NEAR, short[k] + var(name), load(lines.operand, lines.at(var(name)) + place_, code))
                  for k, lines in targets]
        return For(name, ZERO, c, tuple(stores))

    minus = const(-1.0, code)
    column = For("one", ZERO, ONE, (
        entries("q", [(0, y), (1, u)], g),
        *combined("ca", code, v, c, short[0], (A, a.at(g)), (g, m), minus),
        *combined("cb", code, x, c, short[1], (A, a.at(g)), (g, m), minus),
        *reflected(code, (A, a.at(g)), g, m, (V, vector), ((D, base[D] + g), (TAU_V, base[TAU_V] + g))),
    ))
    clear = (
        For("k", after, n, (Store(NEAR, less + var("k"), const(0.0, code)),
                            Store(NEAR, taken + var("k"), const(0.0, code))), vector=True),
        For("t", g, m, (Store(NEAR, total + var("t"), const(0.0, code)),), vector=True),
    )
    corrections = (
        entries("q", [(2, v), (3, x)], g),
        *dots("pa", code, v, c, (V, vector), (g, m), short[0]),
        *dots("pb", code, x, c, (V, vector), (g, m), short[1]),
        *combined("ta", code, y, c, short[0], (NEAR, taken), (after, n)),
        *combined("tb", code, u, c, short[1], (NEAR, taken), (after, n)),
        *combined("la", code, y, c, short[2], (NEAR, less), (after, n)),
        *combined("lb", code, u, c, short[3], (NEAR, less), (after, n)),
    )

    def walk(own: str, first: Value, together: int) -> list[Statement]:
        """The next element of A^T v, of the row, and A times it, of some columns."""
        r, t = var(f"{own}.r"), var(f"{own}.t")
        sums = [var(f"{own}.s{k}", code) for k in range(together)]
        found: list[Statement] = [Local(f"{own}.b{k}", a.at(first + const(k, "i64"))) for k in range(together)]
        at = [var(f"{own}.b{k}") for k in range(together)]
        found.append(reduction(
            r.attr, g, m, [s.attr for s in sums], [const(0.0, code)] * together,
            lambda acc: [fma(load(A, b + r, code), load(V, vector + r, code), s) for b, s in zip(at, acc, strict=True)],
            lambda l, h: [s + z for s, z in zip(l, h, strict=True)]))
        gathered = load(NEAR, total + t, code)
        for k, (b, s) in enumerate(zip(at, sums, strict=True)):
            where, product, z = first + const(k, "i64"), var(f"{own}.y{k}", code), var(f"{own}.z{k}", code)
            found += [
                Local(product.attr, load(TAU_V, base[TAU_V] + g, code) * (s - load(NEAR, taken + where, code))),
                Local(z.attr, load(A, b + g, code) - load(NEAR, less + where, code) - product),
                Store(Y, y.at(c) + where, product),
                Store(NEAR, row + where, z),
            ]
            gathered = fma(load(A, b + t, code), z, gathered)
        return [*found, For(t.attr, g, m, (Store(NEAR, total + t, gathered),), vector=True)]

    beside = (*clear, *corrections, *grouped("w", after, n, walk), *_row_part(code, (a, v, u, x, y), base, row, total,
                                                                              short))
    body = For("c", ZERO, var("w"), (Local("g", var("j") + c), column, If(lt(after, n), beside)))
    names = ("m", "n", "j", "w", *(f"{kind}{k}" for k in (A, V, U, X, Y) for kind in "bl"), *(f"b{k}" for k in
             range(D, NEAR + 1)))
    return Nest("bidiagonal_panel", operands([], [code] * 10), names, rows(body))


def _row_part(code: str, lines: tuple[Lines, ...], base: dict[int, Value], row: Value, total: Value,
              short: list[Value]) -> list[Statement]:
    """The row's reflection, and the column of X that it gives."""
    a, v, u, x, y = lines
    m, n, c, g = (var(name) for name in ("m", "n", "c", "g"))
    after, vector, out, tau = g + ONE, u.at(c), x.at(c), var("tau", code)
    t = var("x.t")
    turned, inverse, up = (var(name, "f64") for name in ("turned", "inverse", "up"))
    is_short = lt(var("length", "f64"), const(SHORT, "f64") * up)
    first = load(A, a.at(after) + t, code)
    swept = fma(load(NEAR, total + t, code), var("x.sum", code), first * var("x.first", code))
    whole = load(X, out + var("s.t"), code)
    element = load(U, vector + var("s.k"), code)
    again = (
        For("s.o", after, m, (Store(X, out + var("s.o"), const(0.0, code)),), vector=True),
        For("s.k", after, n, (Local("s.w", tau * element), For("s.t", after, m, (
            Store(X, out + var("s.t"), fma(load(A, a.at(var("s.k")) + var("s.t"), code), var("s.w", code), whole)),),
            vector=True))),
    )
    once = (
        Local("x.sum", cast(wide(tau) * up * inverse, code)),
        Local("x.first", cast(neg(wide(tau) * turned * inverse), code)),
        For(t.attr, after, m, (Store(X, out + t, swept),), vector=True),
    )
    return [
        *reflected(code, (NEAR, row), after, n, (U, vector), ((E, base[E] + g), (TAU_U, base[TAU_U] + g))),
        If(is_short, again, once),
        *dots("xa", code, y, c + ONE, (U, vector), (after, n), short[0]),
        *dots("xb", code, u, c, (U, vector), (after, n), short[1]),
        *combined("xc", code, v, c + ONE, short[0], (X, out), (after, m), neg(tau)),
        *combined("xd", code, x, c, short[1], (X, out), (after, m), neg(tau)),
    ]
