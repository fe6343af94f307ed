"""Triangular systems with many right sides whose rows are runs of memory: blocks in registers, products between them.

Enters: a `Program`, a triangle with any strides, and right sides over which the solutions are written. Leaves: steps:
small triangles by a generated loop that has right sides on its lanes and some unknowns of each in registers, larger
ones by halves, between which a product runs. A library solves column-major right sides half as fast as it multiplies.
Refuses (`suits` says so): complex types, few right sides.
"""

from __future__ import annotations

from ...base.shape import reaches
from ...codegen.text.targets import vector_bits
from ...loops.expr import Value, const, fma, idiv, irem, load, min_, ne, neg, var
from ...loops.nest import Assign, For, If, Local, Nest, Statement, Store, operands, rows
from ...op.pack import BY_CODE
from ...op.step import Step
from .lapack import Block, Number, Program, Strip, kernel_for, place

# Unknowns that a loop solves for: with wide vectors it is as fast as a product.
LEAF = 128 if vector_bits() > 128 else 64
TOGETHER = 8        # of which so many are in registers at a time
COLUMNS = 64        # right sides that a thread takes at a time
FEW = 32            # right sides from which this pays
STRIP = 256         # columns of a product that a thread takes
APART = 16          # elements that come between rows
ZERO, ONE = const(0, "i64"), const(1, "i64")


def suits(p: Program, code: str, unknowns: int, count: int) -> bool:
    """Whether systems of this size are solved here."""
    return p.shares and code in ("f32", "f64") and reaches(unknowns, TOGETHER * 4) and reaches(count, FEW)


def right_sides(p: Program, code: str, unknowns: int, count: int) -> Block:
    """Memory for right sides: rows a power of two apart would share the same few lines of a cache."""
    line = -(-count // APART) * APART + APART
    return p.temporary(BY_CODE[code], unknowns, line, row_major=True).left(count)


def solve(p: Program, code: str, a: Block, b: Block, lower: bool, unit: bool) -> None:
    """A X = B over `b`, for a triangle of `a`."""
    if not p.count * b.rows * b.cols or p.device.type == "meta":
        return
    inverses = None
    if not unit:
        inverses = p.temporary(BY_CODE[code], a.rows)
        params = [a.rows, a.batch, a.row + a.col, inverses.batch]
        kernel = kernel_for(p.device, inverse_nest, code)
        p.steps.append(Step(kernel, [place(a), place(inverses)], params, p.count, max(1, 8192 // a.rows), -1))
    _halves(p, code, a, b, lower, inverses)


def _halves(p: Program, code: str, a: Block, b: Block, lower: bool, inverses: Block | None) -> None:
    n = a.rows
    if n <= LEAF:
        _leaf(p, code, a, b, lower, inverses)
        return
    h = (n // 2 + LEAF - 1) // LEAF * LEAF
    spans = (0, h), (h, n - h)
    for span, other in (spans, spans[::-1]) if lower else (spans[::-1], spans):
        (start, size), (beyond, rest) = span, other
        known, target = b.at(start, 0, size, b.cols), b.at(beyond, 0, rest, b.cols)
        own = None if inverses is None else inverses.at(start, 0, size, 1)
        _halves(p, code, a.at(start, start, size, size), known, lower, own)
        if (start == 0) == lower:
            multiply(p, code, target, a.at(beyond, start, rest, size), known)


def invert(p: Program, code: str, a: Block, b: Block) -> None:
    """The inverse of a lower triangle with a diagonal of ones, over an identity in `b`: what is above stays 0, and
    costs nothing."""
    n = a.rows
    if n <= LEAF:
        _leaf(p, code, a, b, True, None)
        return
    h = (n // 2 + LEAF - 1) // LEAF * LEAF
    corner, below = b.at(0, 0, h, h), b.at(h, 0, n - h, h)
    last = a.at(h, h, n - h, n - h)
    invert(p, code, a.at(0, 0, h, h), corner)
    multiply(p, code, below, a.at(h, 0, n - h, h), corner)
    _halves(p, code, last, below, True, None)
    invert(p, code, last, b.at(h, h, n - h, n - h))


def _leaf(p: Program, code: str, a: Block, b: Block, lower: bool, inverses: Block | None) -> None:
    step = 1
    if not lower:      # from the last unknown to the first
        last = a.rows - 1
        a = a.at(last, last, a.rows, a.cols).but(row=-a.row, col=-a.col)
        b = b.at(last, 0, b.rows, b.cols).but(row=-b.row)
        step = -1
        inverses = inverses and inverses.at(last, 0, a.rows, 1)
    strips = -(-b.cols // COLUMNS)
    unit = inverses is None
    apart = 0 if inverses is None else inverses.batch
    params = [a.rows, b.cols, strips, a.batch, a.row, a.col, b.batch, b.row, apart, step]
    places = [place(x) for x in (a, b, inverses) if x is not None]
    grain = max(1, (1 << 18) // (a.rows * a.rows * COLUMNS))
    p.steps.append(Step(kernel_for(p.device, leaf_nest, code, unit), places, params, p.count * strips, grain, -1))


def multiply(p: Program, code: str, target: Block, a: Block, b: Block) -> None:
    """target - a b over `target`; rows of it and of `b` are runs."""
    n, work = target.cols, target.rows * target.cols * a.cols
    form = ("N", a.row) if a.col == 1 else ("T", a.col)     # as the library sees it, its columns are our rows
    size: int | Strip = n
    strips = None
    if p.count == 1 and reaches(n, 2 * STRIP):
        size, strips = Strip(STRIP, n), -(-n // STRIP)
        a, b, target, work = a.every(0), b.every(STRIP), target.every(STRIP), work // strips
    p.call("gemm", code, "N", form[0], size, target.rows, a.cols, Number(-1), b, b.row, a, form[1], Number(1),
           target, target.row, strips=strips, work=work)


def exchange(p: Program, b: Block, pivots: Block, back: bool = False) -> None:
    """Exchange rows of `b` as pivots say; `back`, from the last to the first."""
    if not p.count * b.rows * b.cols or p.device.type == "meta":
        return
    size = 4 * COLUMNS
    strips = -(-b.cols // size)
    params = [pivots.rows, b.cols, strips, b.batch, b.row, pivots.batch]
    kernel = kernel_for(p.device, exchange_nest, b.code, back, size)
    grain = max(1, 8192 // (b.rows * size))
    p.steps.append(Step(kernel, [place(pivots), place(b)], params, p.count * strips, grain, -1))


# --- kernels ----------------------------------------------------------------------------------------------------------


def inverse_nest(code: str) -> Nest:
    """1 / the diagonal of every matrix i."""
    i, k = var("i"), var("k")
    entry = load(0, i * var("ab") + k * var("step"), code)
    store = Store(1, i * var("db") + k, const(1.0, code) / entry)
    return Nest("inverse_diagonal", operands([code], [code]), ("n", "ab", "step", "db"),
                rows(For("k", ZERO, var("n"), (store,))))


def leaf_nest(code: str, unit: bool) -> Nest:
    """A lower triangle over strips of right sides, which are on lanes: some unknowns are in registers while those
    before them are read, once for all of them."""
    names = ("n", "cols", "strips", "ab", "ar", "ac", "bb", "br", "db", "ds")
    which, strip, v = var("which"), var("strip"), var("v")
    matrix, right = which * var("ab"), which * var("bb")

    def a(row: Value, col: Value) -> Value:
        return load(0, matrix + row * var("ar") + col * var("ac"), code)

    def at(row: Value) -> Value:
        return right + row * var("br") + v

    def solved(x: Value, row: Value) -> Value:
        return x if unit else x * load(2, which * var("db") + row * var("ds"), code)

    def block(first: Value, count: int, prefix: str) -> list[Statement]:
        """Unknowns from `first` on."""
        x = [var(f"{prefix}{r}", code) for r in range(count)]
        row = [first + const(r, "i64") for r in range(count)]
        j, known = var(f"{prefix}j"), var(f"{prefix}known", code)
        body: list[Statement] = [Local(f"{prefix}{r}", load(1, at(row[r]), code)) for r in range(count)]
        updates = [Assign(f"{prefix}{r}", fma(neg(a(row[r], j)), known, x[r])) for r in range(count)]
        body.append(For(f"{prefix}j", ZERO, first, (Local(f"{prefix}known", load(1, at(j), code)), *updates)))
        for r in range(count):
            if not unit:
                body.append(Assign(f"{prefix}{r}", solved(x[r], row[r])))
            body.append(Store(1, at(row[r]), x[r]))
            body += [Assign(f"{prefix}{s}", fma(neg(a(row[s], row[r])), x[r], x[s])) for s in range(r + 1, count)]
        return body

    together = const(TOGETHER, "i64")
    blocks = idiv(var("n"), together)
    whole = For("q", ZERO, blocks, (Local("first", var("q") * together), *block(var("first"), TOGETHER, "x")))
    rest = For("r", blocks * together, var("n"), tuple(block(var("r"), 1, "y")))
    start = strip * const(COLUMNS, "i64")
    lanes = For("v", start, min_(start + const(COLUMNS, "i64"), var("cols")), (whole, rest), vector=True)
    head = (Local("which", idiv(var("i"), var("strips"))), Local("strip", irem(var("i"), var("strips"))))
    reads = operands([code], [code]) if unit else (*operands([code], [code]), *operands([code], []))
    return Nest("triangle_rows", reads, names, rows(*head, lanes))


def exchange_nest(code: str, back: bool, size: int) -> Nest:
    """Rows k and pivots[k] - 1 change places, k = 0, 1, ... or the other way round, in strips of `size` columns."""
    which, strip, k, j, v = var("which"), var("strip"), var("k"), var("j"), var("v")
    place_ = var("count") - ONE - var("t") if back else var("t")
    right, start = which * var("bb"), strip * const(size, "i64")
    here, there = var("here", code), var("there", code)
    upper, lower = right + k * var("br") + v, right + j * var("br") + v
    swap = For("v", start, min_(start + const(size, "i64"), var("cols")), (
        Local("here", load(1, upper, code)), Local("there", load(1, lower, code)),
        Store(1, upper, there), Store(1, lower, here)), vector=True)
    walk = For("t", ZERO, var("count"), (
        Local("k", place_), Local("j", load(0, which * var("pb") + k, "i64") - ONE), If(ne(j, k), (swap,)),
    ))
    head = (Local("which", idiv(var("i"), var("strips"))), Local("strip", irem(var("i"), var("strips"))))
    names = ("count", "cols", "strips", "bb", "br", "pb")
    return Nest("exchange_rows", operands(["i64"], [code]), names, rows(*head, walk))
