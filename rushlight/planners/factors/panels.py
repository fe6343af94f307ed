"""Factoring and solving with one large matrix: panels in order, with what lies beside them shared by threads.

Enters: a `Program` over a single matrix. Leaves: steps that factor a panel by LAPACK, then update strips of the rest by
triangular solves and products, each strip on one thread. The library's own threads are not used: they wait by spinning,
which is slow where other programs want the cores. Refuses nothing;
small matrices and batches take one LAPACK call each.
"""

from __future__ import annotations

from ... import _C
from ...base.shape import reaches
from ...codegen.text.targets import vector_bits
from ...loops import expr
from ...loops.nest import Assign, For, If, Local, Nest, Store, operands, rows
from ...op.pack import BY_CODE
from ...op.step import Step
from . import small as small_factors, triangles
from .lapack import LENGTH, WORK, Affine, Block, Number, Program, Strip, kernel_for, place

SHARED = 192       # the size from which one matrix is factored by panels
NARROW = 128       # the least width of a strip: narrower ones spend too much on packing for products
# Unknowns of a triangular system that the library solves for at once: on x86-64 its own cut is half as fast, on AArch64
# as fast.
HALVED = 32 if vector_bits() > 128 else 1 << 30
FEW = 16           # columns from which on a product is worth more than a triangular solve
STRIPS = 16        # into how many, at most; by size alone, so that results do not depend on threads


def is_shared(p: Program, size: int) -> bool:
    """Whether a matrix is factored by panels."""
    return p.shares and reaches(size, SHARED) and p.count == 1


def panel_width(size: int) -> int:
    """Columns factored together."""
    return 64 if size < 512 else 128


def cut(total: int) -> tuple[int, int]:
    """Strips of `total` columns or rows: how wide, how many."""
    width = -(-total // max(2, min(STRIPS, total // NARROW)))
    return width, -(-total // width)


def factor(p: Program, code: str, a: Block, pivots: Block, info: Block) -> None:
    """LU of `a`, with LAPACK's row exchanges (counted from 1) and status."""
    m, n = a.rows, a.cols
    k = min(m, n)
    if small_factors.is_small(code, m, n):
        small_factors.factor(p, code, a, pivots, info)
        return
    if not is_shared(p, k):
        p.call("getrf", code, m, n, a, a.lead, pivots, info, work=m * n * k)
        return
    width = panel_width(k)
    statuses = p.temporary(_C.int64, -(-k // width))
    for number, j in enumerate(range(0, k, width)):
        w = min(width, k - j)
        panel, own = a.at(j, j, m - j, w), pivots.at(j, 0, w, 1)
        p.call("getrf", code, m - j, w, panel, a.lead, own, statuses.at(number, 0, 1, 1), strips=1, work=m * w * w)
        if j:
            exchange(p, code, a.at(j, 0, m - j, j), own, w)
        if j + w < n:
            rest = n - j - w
            exchange(p, code, a.at(j, j + w, m - j, rest), own, w)
            beside, below = a.at(j, j + w, w, rest), a.at(j + w, j, m - j - w, w)
            size, count = cut(rest)
            top, strip = beside.every(size * a.lead), Strip(size, rest)
            if triangles.suits(p, code, w, rest):
                turned = triangles.right_sides(p, code, w, rest)
                p.copy(beside, turned)
                triangles.solve(p, code, panel.at(0, 0, w, w), turned, lower=True, unit=True)
                p.copy(turned, beside)
            else:
                _triangle(p, code, ("L", "L", "N", "U"), panel.at(0, 0, w, w).every(0), top, strip, count)
            if below.rows:
                target = a.at(j + w, j + w, m - j - w, rest).every(size * a.lead)
                p.call("gemm", code, "N", "N", below.rows, strip, w, Number(-1), below.every(0), a.lead, top, a.lead,
                       Number(1), target, a.lead, strips=count, work=below.rows * size * w)
    if p.device.type != "meta":
        places = [place(b) for b in (statuses, pivots, info)]
        p.steps.append(Step(kernel_for(p.device, gather_nest), places, [k, width, statuses.rows], 1, 1, -1))


def exchange(p: Program, code: str, a: Block, pivots: Block, count: int, back: bool = False) -> None:
    """Exchange rows of `a` as a panel's pivots say; `back`, from the last to the first."""
    if p.count > 1:
        p.call("laswp", code, a.cols, a, a.lead, 1, count, pivots, -1 if back else 1, work=count * a.cols * 64)
        return
    size, strips = cut(a.cols)
    p.call(
        "laswp",
        code,
        Strip(size, a.cols),
        a.every(size * a.lead),
        a.lead,
        1,
        count,
        pivots.every(0),
        -1 if back else 1,
        strips=strips,
        work=count * size * 64,
    )


def gather_nest() -> Nest:
    """Panels' pivots counted from the matrix's first row, and the status of the first panel that has one."""
    k, r, zero = expr.var("k"), expr.var("r"), expr.const(0, "i64")
    first = expr.idiv(k, expr.var("width")) * expr.var("width")
    moved = For("k", zero, expr.var("size"), (Store(1, k, expr.load(1, k, "i64") + first),))
    status, found = expr.load(0, r, "i64"), expr.var("found")
    taken = Assign("found", status + r * expr.var("width"))
    search = For("r", zero, expr.var("panels"), (If(expr.and_(expr.eq(found, zero), expr.ne(status, zero)), (taken,)),))
    body = rows(moved, Local("found", zero), search, Store(2, zero, found))
    return Nest("lu_gather", operands(["i64"], ["i64", "i64"]), ("size", "width", "panels"), body)


def triangular(p: Program, code: str, form: tuple[str, str, str, str], a: Block, b: Block) -> None:
    """The triangular system `form` (side, triangle, transposed or not, unit diagonal or not, as BLAS names them) over
    `b`. By halves, between which products run, faster than the library's own solver; strips of a large `b` are shared
    by threads."""
    total = b.cols if form[0] == "L" else b.rows
    if not is_shared(p, a.rows) or not reaches(total, 2 * NARROW):
        _triangle(p, code, form, a, b, total)
        return
    size, strips = cut(total)
    step = size * b.lead if form[0] == "L" else size
    _triangle(p, code, form, a.every(0), b.every(step), Strip(size, total), strips)


def _triangle(
    p: Program, code: str, form: tuple[str, str, str, str], a: Block, b: Block, other: int | Strip,
    strips: int | None = None,
) -> None:
    side, triangle, trans, unit = form
    n, left = a.rows, side == "L"
    share = other.size if isinstance(other, Strip) else other
    if not p.shares or not reaches(n, 2 * HALVED) or not reaches(share, FEW):
        sizes = (n, other) if left else (other, n)
        p.call("trsm", code, side, triangle, trans, unit, *sizes, Number(1), a, a.lead, b, b.lead, strips=strips,
               work=n * n * share // 2)
        return
    h = n // 2 // HALVED * HALVED
    rest = n - h
    corners = a.at(0, 0, h, h), a.at(h, h, rest, rest)
    between = a.at(h, 0, rest, h) if triangle == "L" else a.at(0, h, h, rest)
    parts = (b.at(0, 0, h, b.cols), b.at(h, 0, rest, b.cols)) if left else (
        b.at(0, 0, b.rows, h), b.at(0, h, b.rows, rest))
    is_lower = (triangle == "L") == (trans == "N")
    first = 0 if is_lower == left else 1     # whose unknowns depend on no others
    _triangle(p, code, form, corners[first], parts[first], other, strips)
    known, target = parts[first], parts[1 - first]
    many, few = (rest, h) if first == 0 else (h, rest)
    how: tuple
    if left:
        how = (trans, "N", many, other, few, Number(-1), between, between.lead, known, known.lead)
    else:
        how = ("N", trans, other, many, few, Number(-1), known, known.lead, between, between.lead)
    p.call("gemm", code, *how, Number(1), target, target.lead, strips=strips, work=many * few * share)
    _triangle(p, code, form, corners[1 - first], target, other, strips)


def solve(p: Program, code: str, trans: str, lu: Block, pivots: Block, source: Block, b: Block) -> None:
    """op(A) X = `source` to `b`, from the factors; columns of a large system are shared by threads."""
    n, count = b.rows, b.cols
    if triangles.suits(p, code, n, count):
        by_rows(p, code, trans, lu, pivots, source, b)
        return
    p.copy(source, b)
    if small_factors.solves(code, n, count):
        small_factors.solve(p, code, trans, lu, pivots, b)
        return
    if p.shares and reaches(n, 2 * HALVED) and reaches(count, FEW):
        order = (("L", "L", trans, "U"), ("L", "U", trans, "N"))
        if trans == "N":
            exchange(p, code, b, pivots, n)
        for form in order if trans == "N" else order[::-1]:
            triangular(p, code, form, lu, b)
        if trans != "N":
            exchange(p, code, b, pivots, n, back=True)
        return
    if is_shared(p, n) and reaches(count, 32):
        size, strips = cut(count)
        p.call("getrs", code, trans, n, Strip(size, count), lu.every(0), lu.lead, pivots.every(0),
               b.every(size * b.lead), b.lead, p.temporary(_C.int64, strips).every(1), strips=strips,
               work=n * n * size)
        return
    p.call("getrs", code, trans, n, count, lu, lu.lead, pivots, b, b.lead, p.temporary(_C.int64), work=n * n * count)


def by_rows(p: Program, code: str, trans: str, lu: Block, pivots: Block, source: Block, b: Block) -> None:
    """The same with right sides in rows."""
    x = triangles.right_sides(p, code, b.rows, b.cols) if b.col != 1 else b
    p.copy(source, x)
    if trans == "N":
        triangles.exchange(p, x, pivots)
        triangles.solve(p, code, lu, x, lower=True, unit=True)
        triangles.solve(p, code, lu, x, lower=False, unit=False)
    else:
        triangles.solve(p, code, lu.t, x, lower=True, unit=False)
        triangles.solve(p, code, lu.t, x, lower=False, unit=True)
        triangles.exchange(p, x, pivots, back=True)
    if x is not b:
        p.copy(x, b)


def invert(p: Program, code: str, lu: Block, pivots: Block, result: Block) -> None:
    """A^-1 = U^-1 L^-1 P to `result`, from the factors: half the products of solving with an identity."""
    n = lu.rows
    if small_factors.is_small(code, n, most=small_factors.SMALL_INVERSE) or not p.shares:
        eye = p.temporary(BY_CODE[code], n, n)
        p.identity(eye)
        solve(p, code, "N", lu, pivots, eye, result)
        return
    if not triangles.suits(p, code, n, n):
        p.copy(lu, result)
        alone = 1 if p.count == 1 else None   # one strip: the library's own threads would wait by spinning
        p.call("getri", code, n, result, result.lead, pivots, WORK, LENGTH, p.temporary(_C.int64), work=n * n * n,
               strips=alone)
        return
    x = triangles.right_sides(p, code, n, n)
    p.identity(x.t)
    triangles.invert(p, code, lu, x)
    triangles.solve(p, code, lu, x, lower=False, unit=False)
    p.copy(x, result)
    triangles.exchange(p, result.t, pivots, back=True)


def cholesky(p: Program, code: str, a: Block, upper: bool, info: Block) -> None:
    """Cholesky factor in place of the triangle it is in; the other triangle is zero before and after."""
    n = a.rows
    if small_factors.is_small(code, n):
        small_factors.cholesky(p, code, a, info, upper)
        return
    if upper or not is_shared(p, n):
        p.call("potrf", code, "U" if upper else "L", n, a, a.lead, info, work=n * n * n // 3)
        return
    width = panel_width(n)
    statuses = p.temporary(_C.int64, -(-n // width))
    transposed = "C" if code in ("c64", "c128") else "T"
    for number, j in enumerate(range(0, n, width)):
        w, rest = min(width, n - j), n - j - min(width, n - j)
        corner, below = a.at(j, j, w, w), a.at(j + w, j, rest, w)
        p.call("potrf", code, "L", w, corner, a.lead, statuses.at(number, 0, 1, 1), strips=1, work=w * w * w)
        if not rest:
            break
        size, count = cut(rest)
        if triangles.suits(p, code, w, rest):     # X L^T = B is L X^T = B^T, whose rows are runs
            triangles.solve(p, code, corner, below.t, lower=True, unit=False)
        else:
            form = ("R", "L", transposed, "N")
            _triangle(p, code, form, corner.every(0), below.every(size), Strip(size, rest), count)
        # Strip i of the trailing columns: its part of the diagonal, then what is below.
        corner = a.at(j + w, j + w, rest, rest).every(size * (a.lead + 1))
        p.call("herk" if transposed == "C" else "syrk", code, "L", "N", Strip(size, rest), w, Number(-1, real=True),
               below.every(size), a.lead, Number(1, real=True), corner, a.lead, strips=count,
               work=size * size * w // 2)
        under = a.at(j + w + size, j + w, rest, rest).every(size * (a.lead + 1))
        p.call("gemm", code, "N", transposed, Affine(rest - size, -size), size, w, Number(-1),
               a.at(j + w + size, j, rest, w).every(size), a.lead, below.every(size), a.lead, Number(1), under, a.lead,
               strips=count - 1, work=rest * size * w // 2)
    if p.device.type != "meta":
        spare = p.temporary(_C.int64, 1)
        p.steps.append(
            Step(
                kernel_for(p.device, gather_nest),
                [place(b) for b in (statuses, spare, info)],
                [0, width, statuses.rows],
                1,
                1,
                -1,
            )
        )
