"""Householder reflections in panels: QR, products with Q, and least squares, as products of matrices.

Enters: a `Program` and column-major blocks of real numbers. Leaves: steps. Columns are reflected one after another in
narrow leaves by a generated loop; leaves are joined by halves into panels, whose reflections are I - V T V^T (the
compact WY form), so that all but the leaves is products. `V` is kept beside the factor with its ones and zeros written
out. Signs and scales are LAPACK's (geqrf). Refuses (`suits` says so): complex types, small matrices.
"""

from __future__ import annotations

from ...base.shape import reaches
from ...loops.expr import (
    Value,
    abs_,
    and_,
    cast,
    const,
    copysign,
    eq,
    fma,
    ge,
    gt,
    idiv,
    le,
    load,
    lt,
    max_,
    ne,
    neg,
    or_,
    select,
    sqrt,
    var,
)
from ...loops.nest import Assign, For, If, Local, Nest, Reduce, Statement, Store, operands, reduction, rows
from ...loops.record import Record
from ...op.pack import BY_CODE
from ...op.step import Step
from .lapack import Block, Number, Program, Strip, kernel_for, packed, place

LEAST = 48          # reflections from which panels pay
LEAF = 16           # columns that are reflected one by one
WIDTH = 32          # columns of a panel
TOGETHER = 4        # columns that meet a reflection while it is in registers
STRIP = 256         # columns that a thread takes of a matrix's product
APART = 16          # elements between columns, which a power of two apart would share few lines of a cache
ZERO, ONE = const(0, "i64"), const(1, "i64")
# Sums of squares that lost nothing: float64's own; those of float32 are summed in float64.
SMALL_SQUARES, LARGE_SQUARES = 2.0**-900, 2.0**1000
# Sizes of numbers whose products are in range, with room for sums.
RANGE = {"f32": (2.0**-100, 2.0**100), "f64": (2.0**-960, 2.0**960)}


class Panels(Record):
    """Reflections: vectors `v`, the panels' triangles `t` side by side, scales."""

    v: Block
    t: Block
    tau: Block
    count: int


def suits(p: Program, code: str, count: int) -> bool:
    """Whether so many reflections are made here."""
    return p.shares and code in ("f32", "f64") and reaches(count, LEAST)


def memory(p: Program, code: str, m: int, n: int) -> Block:
    """An m x n matrix, column-major."""
    return p.temporary(BY_CODE[code], -(-m // APART) * APART + APART, n).top(m)


def panels(p: Program, code: str, v: Block, tau: Block) -> Panels:
    """Reflections with these vectors; memory for their triangles."""
    t = p.temporary(BY_CODE[code], WIDTH, v.cols)
    p.constant(t, 0)
    return Panels(v, t, tau, v.cols)


def factor(p: Program, code: str, a: Block, count: int, tau: Block) -> Panels:
    """QR of the first `count` columns of `a`, as geqrf leaves it; the others are reflected too."""
    made = panels(p, code, memory(p, code, a.rows, count), tau)
    for j in range(0, count, WIDTH):
        w = min(WIDTH, count - j)
        _columns(p, code, a, made, j, w, 0)
        if j + w < a.cols:
            reflect(p, code, made, j, w, a.at(j, j + w, a.rows - j, a.cols - j - w), transposed=True)
    return made


def given(p: Program, code: str, a: Block, tau: Block) -> Panels:
    """Reflections as geqrf left them in `a`."""
    m, count = a.rows, tau.rows
    made = panels(p, code, memory(p, code, m, count), tau)
    p.copy(a.left(count), made.v, None, -1)
    if p.device.type != "meta":
        params = [count, made.v.batch, made.v.lead]
        p.steps.append(Step(kernel_for(p.device, ones_nest, code), [place(made.v)], params, p.count, 64, -1))
    weigh(p, code, made)
    return made


def weigh(p: Program, code: str, made: Panels) -> None:
    """The panels' triangles, from vectors and scales."""
    for j in range(0, made.count, WIDTH):
        _weigh(p, code, made, j, min(WIDTH, made.count - j), 0)


def form(p: Program, code: str, made: Panels, q: Block) -> None:
    """The first columns of Q: reflections from the last to the first, each of a panel's columns of the identity beside
    what is made already."""
    p.identity(q)
    for j in range((made.count - 1) // WIDTH * WIDTH, -1, -WIDTH):
        w = min(WIDTH, made.count - j)
        c = q.at(j, j, q.rows - j, q.cols - j)
        v = made.v.at(j, j, c.rows, w)
        inner, outer = (p.temporary(BY_CODE[code], w, c.cols) for _ in range(2))
        p.copy(v.top(w).t, inner.left(w))
        if c.cols > w:
            right = (w, w, c.rows - w, c.cols - w)
            product(p, code, inner.at(0, w, w, c.cols - w), v.at(w, 0, c.rows - w, w).t, c.at(*right))
        product(p, code, outer, made.t.at(0, j, w, w), inner)
        product(p, code, c, v, outer, -1, 1)


def apply(p: Program, code: str, made: Panels, c: Block, left: bool, transposed: bool) -> None:
    """Q c (c Q where not `left`), or with Q^T, over `c`."""
    starts = range(0, made.count, WIDTH)
    for j in starts if transposed == left else reversed(starts):
        w = min(WIDTH, made.count - j)
        if left:
            reflect(p, code, made, j, w, c.at(j, 0, c.rows - j, c.cols), transposed)
        else:
            _reflect_rows(p, code, made, j, w, c.at(0, j, c.rows, c.cols - j), transposed)


def reflect(p: Program, code: str, made: Panels, j: int, w: int, c: Block, transposed: bool, top: int = 0) -> None:
    """(I - V T V^T) c, or with T^T, over `c`, whose first row is row j; T's corner is in row `top`."""
    v, t = made.v.at(j, j, c.rows, w), made.t.at(top, j, w, w)
    inner, outer = (p.temporary(BY_CODE[code], w, c.cols) for _ in range(2))
    product(p, code, inner, v.t, c)
    product(p, code, outer, t.t if transposed else t, inner)
    product(p, code, c, v, outer, -1, 1)


def _reflect_rows(p: Program, code: str, made: Panels, j: int, w: int, c: Block, transposed: bool) -> None:
    """c (I - V T V^T), or with T^T, over `c`, whose first column is column j."""
    v, t = made.v.at(j, j, c.cols, w), made.t.at(0, j, w, w)
    inner, outer = (p.temporary(BY_CODE[code], c.rows, w) for _ in range(2))
    product(p, code, inner, c, v)
    product(p, code, outer, inner, t.t if transposed else t)
    product(p, code, c, outer, v.t, -1, 1)


def product(p: Program, code: str, c: Block, a: Block, b: Block, alpha: float = 1, beta: float = 0) -> None:
    """alpha a b + beta c over `c`; strips of a large matrix's columns are shared by threads."""
    m, n, k = c.rows, c.cols, a.cols
    size: int | Strip = n
    strips, work = None, m * n * k
    left, right = (("N", x.col) if x.row == 1 else ("T", x.row) for x in (a, b))
    if p.count == 1:
        width = min(n, STRIP)
        size, strips, work = Strip(width, n), -(-n // width), m * width * k
        a, b, c = a.every(0), b.every(width * b.col), c.every(width * c.col)
    p.call("gemm", code, left[0], right[0], m, size, k, Number(alpha), a, max(left[1], 1), b, max(right[1], 1),
           Number(beta), c, c.lead, strips=strips, work=work)


def _columns(p: Program, code: str, a: Block, made: Panels, j: int, w: int, top: int) -> None:
    """Reflect columns j .. j + w of `a` from row j on, and weigh them."""
    if w <= LEAF:
        panel, v, tau = a.at(j, j, a.rows - j, w), made.v.at(0, j, a.rows, w), made.tau.at(j, 0, w, 1)
        if p.count and p.device.type != "meta":
            params = [a.rows, w, j, a.batch, a.lead, v.batch, v.lead, tau.batch]
            places = [place(b) for b in (a.at(0, j, a.rows, w), v, tau)]
            grain = 0 if panel.rows * w * w > 1 << 20 else max(1, (1 << 14) // (panel.rows * w * w))
            p.steps.append(Step(kernel_for(p.device, leaf_nest, code), places, params, p.count, grain, -1))
        _weigh_leaf(p, code, made, j, w, top)
        return
    h = (w // 2 + LEAF - 1) // LEAF * LEAF
    _columns(p, code, a, made, j, h, top)
    reflect(p, code, made, j, h, a.at(j, j + h, a.rows - j, w - h), transposed=True, top=top)
    _columns(p, code, a, made, j + h, w - h, top + h)
    _join(p, code, made, j, h, w, top)


def _weigh(p: Program, code: str, made: Panels, j: int, w: int, top: int) -> None:
    """The triangle T of reflections j .. j + w."""
    if w <= LEAF:
        _weigh_leaf(p, code, made, j, w, top)
        return
    h = (w // 2 + LEAF - 1) // LEAF * LEAF
    _weigh(p, code, made, j, h, top)
    _weigh(p, code, made, j + h, w - h, top + h)
    _join(p, code, made, j, h, w, top)


def _weigh_leaf(p: Program, code: str, made: Panels, j: int, w: int, top: int) -> None:
    v, t, tau = made.v.at(j, j, made.v.rows - j, w), made.t.at(top, j, w, w), made.tau.at(j, 0, w, 1)
    squares = p.temporary(BY_CODE[code], w, w)
    product(p, code, squares, v.t, v)
    if p.count and p.device.type != "meta":
        params = [w, t.batch, t.lead, squares.batch, squares.lead, tau.batch]
        places = [place(b) for b in (squares, tau, t)]
        p.steps.append(Step(kernel_for(p.device, weigh_nest, code), places, params, p.count, 16, -1))


def _join(p: Program, code: str, made: Panels, j: int, h: int, w: int, top: int) -> None:
    """T of two halves: between them is -T1 (V1^T V2) T2."""
    first, second = made.v.at(j + h, j, made.v.rows - j - h, h), made.v.at(j + h, j + h, made.v.rows - j - h, w - h)
    inner, outer = (p.temporary(BY_CODE[code], h, w - h) for _ in range(2))
    product(p, code, inner, first.t, second)
    product(p, code, outer, made.t.at(top, j, h, h), inner)
    product(p, code, made.t.at(top, j + h, h, w - h), outer, made.t.at(top + h, j + h, w - h, w - h), -1)


def is_full(p: Program, code: str, r: Block, b: Block, rcond: float, rank: Block) -> None:
    """The order of a triangle to `rank` where its smallest singular value, estimated, is not below `rcond` times its
    largest, and all numbers are well in range; 0 elsewhere."""
    if not p.count or p.device.type == "meta":
        return
    vectors = p.temporary(BY_CODE[code], 2 * r.rows)
    params = [r.rows, r.batch, r.lead, vectors.batch, b.rows, b.cols, b.batch, b.lead]
    places = [-1, *(place(x) for x in (r, b, vectors, rank))]
    p.steps.append(Step(kernel_for(p.device, full_nest, code), places, params, p.count, 1, -1, packed(rcond, "f64")
                    .ljust(16, b"\0")))


# --- kernels ----------------------------------------------------------------------------------------------------------


def wide(x: Value) -> Value:
    return cast(x, "f64")


def total_of(name: str, start: Value, stop: Value, squared: Value) -> Reduce:
    """The sum of `squared` (of float64) over the variable `name`, in a local called `name.sum`."""
    return reduction(name, start, stop, [f"{name}.sum"], [const(0.0, "f64")], lambda acc: [acc[0] + squared],
                     lambda a, b: [a[0] + b[0]])


def largest_of(name: str, start: Value, stop: Value, size: Value) -> Reduce:
    """The largest of `size` over the variable `name`, in a local called `name.top`."""
    return reduction(name, start, stop, [f"{name}.top"], [const(0.0, size.dtype)], lambda acc: [max_(size, acc[0])],
                     lambda a, b: [max_(a[0], b[0])])


def length_of(code: str, at: Value, pivot: Value, stop: Value, operand: int = 0) -> list[Statement]:
    """Locals of float64 for a column from element `pivot` on: that element as `alpha`, the column's `length`, `moves`,
    1.0 unless all below alpha is 0, and `up`: the power of two by which alpha and length were multiplied. It is 1.0
    unless squares leave float64's range."""

    def entry(name: str) -> Value:
        return wide(load(operand, at + var(name), code))

    start = pivot + ONE
    total, alpha, up = (var(name, "f64") for name in ("r.sum", "alpha", "up"))
    zero, one = const(0.0, "f64"), const(1.0, "f64")
    found: list[Statement] = [
        Local("alpha", wide(load(operand, at + pivot, code))),
        total_of("r", start, stop, entry("r") * entry("r")),
        Local("moves", select(eq(total, zero), zero, one)),
        Local("length", sqrt(fma(alpha, alpha, total))),
        Local("up", one),
    ]
    if code == "f32":
        return found
    lost = or_(lt(total, const(SMALL_SQUARES, "f64")), gt(total + alpha * alpha, const(LARGE_SQUARES, "f64")))
    below, top = var("q.top", "f64"), var("top", "f64")
    scaled = entry("s") * up
    rescued = (
        largest_of("q", start, stop, abs_(entry("q"))),
        Assign("moves", select(eq(below, zero), zero, one)),
        Local("top", max_(below, abs_(alpha))),
        Assign("up", select(lt(top, const(2.0**-450, "f64")), const(2.0**600, "f64"),
                            select(gt(top, const(2.0**450, "f64")), const(2.0**-600, "f64"), one))),
        Assign("alpha", alpha * up),
        total_of("s", start, stop, scaled * scaled),
        Assign("length", sqrt(fma(alpha, alpha, var("s.sum", "f64")))),
    )
    return [*found, If(lost, rescued)]


def leaf_nest(code: str) -> Nest:
    """Columns 0 .. w of a panel whose first diagonal element is in row `first`: each is reflected to its first number,
    then those after it meet the same reflection. The vectors go to both operands, to the second with all they have."""
    c, m, first, pivot = var("c"), var("m"), var("first"), var("pivot")
    at, kept = var("at"), var("kept")
    alpha, turned, up = (var(name, "f64") for name in ("alpha", "turned", "up"))
    tau, none, one = var("tau", code), const(0.0, code), const(1.0, code)
    moves = ne(var("moves", "f64"), const(0.0, "f64"))
    scaled = cast(wide(load(0, at + var("y"), code)) * up * var("inverse", "f64"), code)
    head: list[Statement] = [
        Local("pivot", first + c),
        Local("at", var("i") * var("ab") + c * var("al")),
        Local("kept", var("i") * var("vb") + c * var("vl")),
        *length_of(code, at, pivot, m),
        Local("turned", neg(copysign(var("length", "f64"), alpha))),
        Local("tau", select(moves, cast((turned - alpha) / turned, code), none)),
        Local("inverse", select(moves, const(1.0, "f64") / (alpha - turned), const(1.0, "f64"))),
        Store(2, var("i") * var("tb") + c, tau),
        Store(0, at + pivot, cast(select(moves, turned, alpha) / up, code)),
        For("z", ZERO, pivot, (Store(1, kept + var("z"), none),), vector=True),
        Store(1, kept + pivot, one),
        For("y", pivot + ONE, m, (Store(1, kept + var("y"), scaled), Store(0, at + var("y"), scaled)), vector=True),
    ]

    def meet(name: str, start: Value, together: int) -> list[Statement]:
        """Columns start, start + 1, ... under the reflection in `kept`."""
        bases = [var(f"{name}b{q}") for q in range(together)]
        dots = [var(f"{name}d{q}", code) for q in range(together)]
        r, u = var(f"{name}r"), var(f"{name}u")
        found: list[Statement] = [Local(x.attr, var("i") * var("ab") + (start + const(q, "i64")) * var("al"))
                                  for q, x in enumerate(bases)]
        found.append(reduction(
            r.attr, pivot, m, [x.attr for x in dots], [none] * together,
            lambda acc: [fma(load(1, kept + r, code), load(0, b + r, code), x)
                         for b, x in zip(bases, acc, strict=True)],
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)]))
        found += [Assign(x.attr, neg(tau * x)) for x in dots]
        found.append(For(u.attr, pivot, m, tuple(
            Store(0, b + u, fma(load(1, kept + u, code), x, load(0, b + u, code)))
            for b, x in zip(bases, dots, strict=True)), vector=True))
        return found

    group = const(TOGETHER, "i64")
    groups = idiv(var("w") - c - ONE, group)
    start = c + ONE + var("g") * group
    others = (
        For("g", ZERO, groups, tuple(meet("g", start, TOGETHER))),
        For("e", c + ONE + groups * group, var("w"), tuple(meet("e", var("e"), 1))),
    )
    body = For("c", ZERO, var("w"), (*head, If(ne(tau, none), others)))
    names = ("m", "w", "first", "ab", "al", "vb", "vl", "tb")
    return Nest("reflect_columns", operands([], [code, code, code]), names, rows(body))


def ones_nest(code: str) -> Nest:
    """Ones on the diagonal."""
    at = var("i") * var("vb") + var("c") * (var("vl") + ONE)
    return Nest("unit_diagonal", operands([], [code]), ("count", "vb", "vl"),
                rows(For("c", ZERO, var("count"), (Store(0, at, const(1.0, code)),))))


def weigh_nest(code: str) -> Nest:
    """Column c of T: tau on the diagonal, and above it -tau T (V^T v_c), of which `squares` has all."""
    i, r, c, q = var("i"), var("r"), var("c"), var("q")

    def t(row: Value, col: Value) -> Value:
        return i * var("tb") + row + col * var("tl")

    total, tau = var("total", code), var("tau", code)
    more = fma(load(2, t(r, q), code), load(0, i * var("sb") + q + c * var("sl"), code), total)
    above = For("r", ZERO, c, (
        Local("total", const(0.0, code)), For("q", r, c, (Assign("total", more),)),
        Store(2, t(r, c), neg(tau * total))))
    column = For("c", ZERO, var("w"), (Local("tau", load(1, i * var("ub") + c, code)), above, Store(2, t(c, c), tau)))
    names = ("w", "tb", "tl", "sb", "sl", "ub")
    return Nest("weigh_reflections", operands([code, code], [code]), names, rows(column))


def grown(name: str, size: Value, dot: Value, gamma: Value, is_least: bool) -> list[Statement]:
    """With one more column, [w; gamma], the best of vectors (s x, c): locals `name.s` and `name.c`. `size` is |x^T R|
    and becomes theirs, `dot` is x^T w: |(s x, c)^T R|^2 is (s, c) times [[a a + b b, b g], [b g, g g]] times (s, c),
    for a, b, g = size, dot, gamma."""

    def own(text: str) -> Value:
        return var(f"{name}.{text}", "f64")

    top, unit, a, b, g = (own(text) for text in ("top", "unit", "a", "b", "g"))
    half, root, long, over, down, norm = (own(text) for text in ("half", "root", "long", "over", "down", "norm"))
    none, one, middle = const(0.0, "f64"), const(1.0, "f64"), const(0.5, "f64")
    s, c = select(eq(norm, none), one, over / norm), select(eq(norm, none), none, down / norm)
    # Of the least, the vector is perpendicular to the other, and the product of both sizes is a g.
    new = select(eq(long, none), none, top * abs_(a * g) / long) if is_least else top * long
    return [
        Local(top.attr, max_(max_(size, abs_(dot)), abs_(gamma))),
        Local(unit.attr, select(eq(top, none), one, top)),
        Local(a.attr, size / unit),
        Local(b.attr, dot / unit),
        Local(g.attr, gamma / unit),
        Local(half.attr, (a * a + b * b - g * g) * middle),
        Local(root.attr, sqrt(half * half + b * g * (b * g))),
        Local(long.attr, sqrt((a * a + b * b + g * g) * middle + root)),
        Local(over.attr, select(ge(half, none), half + root, b * g)),
        Local(down.attr, select(ge(half, none), b * g, root - half)),
        Local(norm.attr, sqrt(over * over + down * down)),
        Local(own("s").attr, neg(c) if is_least else s),
        Local(own("c").attr, s if is_least else c),
        Assign(size.attr, new),
    ]


def full_nest(code: str) -> Nest:
    """Column by column, vectors x of length 1 for which |x^T R| is nearly least and most. `b` is looked at for the
    sizes of its numbers alone."""
    i, n, k, r = var("i"), var("n"), var("k"), var("r")
    vectors = {"least": i * var("vb"), "most": i * var("vb") + n}
    column = i * var("rb") + k * var("rl")
    least, most, right = (var(name, "f64") for name in ("least", "most", "right"))
    none = const(0.0, "f64")
    body: list[Statement] = [
        reduction(
            "r", ZERO, k, ["least.dot", "most.dot"], [const(0.0, code)] * 2,
            lambda acc: [fma(load(3, at + r, code), load(1, column + r, code), x)
                         for at, x in zip(vectors.values(), acc, strict=True)],
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)]),
        Local("gamma", wide(load(1, column + k, code))),
    ]
    for name, at in vectors.items():
        u, scale = var(f"{name}.u"), var(f"{name}.scale", code)
        body += grown(name, var(name, "f64"), wide(var(f"{name}.dot", code)), var("gamma", "f64"), name == "least")
        body += [
            Local(scale.attr, cast(var(f"{name}.s", "f64"), code)),
            For(u.attr, ZERO, k, (Store(3, at + u, load(3, at + u, code) * scale),), vector=True),
            Store(3, at + k, cast(var(f"{name}.c", "f64"), code)),
        ]
    low, high = (const(x, "f64") for x in RANGE[code])
    entry = wide(abs_(load(2, i * var("bb") + var("x") + var("y") * var("bl"), code)))
    look = For("y", ZERO, var("bn"), (
        largest_of("x", ZERO, var("bm"), entry), Assign("right", max_(var("x.top", "f64"), right))))
    fits = and_(and_(ge(most, low), le(most, high)), or_(eq(right, none), and_(ge(right, low), le(right, high))))
    full = and_(and_(gt(least, none), le(most * load(0, ZERO, "f64"), least)), fits)
    names = ("n", "rb", "rl", "vb", "bm", "bn", "bb", "bl")
    return Nest("is_full_rank", operands(["f64", code, code], [code, "i64"]), names, rows(
        Local("least", abs_(wide(load(1, i * var("rb"), code)))), Local("most", least),
        *(Store(3, at, const(1.0, code)) for at in vectors.values()), For("k", ONE, n, tuple(body)),
        Local("right", none), look, Store(4, i, select(full, n, ZERO))))
