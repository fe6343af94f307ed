"""Factoring and solving with batches of small real matrices: one generated loop for each,
instead of a library call per matrix.

Enters: a `Program` and column-major blocks of at most `SMALL` rows and columns. Leaves: steps with LAPACK's results: LU
with row exchanges counted from 1, its solves, Cholesky factors, solves with triangles, and statuses. A call of the
library on a matrix of 4x4 costs several times its arithmetic. Refuses (`is_small` says so): complex types, and sizes
from which the library's blocks pay.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.shape import is_below
from ...codegen.text.targets import vector_bits
from ...loops.expr import Value, abs_, const, eq, fma, gt, load, ne, neg, sqrt, var
from ...loops.nest import Assign, For, If, Local, Nest, Statement, Store, operands, rows
from ...op.step import Step
from .lapack import Block, Program, kernel_for, place

SMALL = 16
# Rows and columns of systems that are solved for one number after another.
SMALL_TRIANGLE = 8 if vector_bits() == 128 else 16
# The same of matrices that are inverted, and of systems with many right sides, beyond which the library pays whoever
# factored; and how many are not many.
SMALL_INVERSE, SMALL_SYSTEM, FEW_SIDES = (16, 16, 4) if vector_bits() == 128 else (8, 12, 4)
ZERO, ONE = const(0, "i64"), const(1, "i64")


def is_small(code: str, *sizes: int, most: int = SMALL) -> bool:
    """Whether matrices of these sizes are factored here. Of symbolic sizes nothing is asked."""
    return code in ("f32", "f64") and all(is_below(n, most + 1) for n in sizes)


def solves(code: str, unknowns: int, count: int) -> bool:
    """Whether systems with so many right sides are solved here, once they are factored."""
    return is_small(code, unknowns, most=SMALL_SYSTEM) or (is_small(code, unknowns) and is_below(count, FEW_SIDES))


def grain(work: int) -> int:
    return max(1, 32768 // max(1, work))


def factor(p: Program, code: str, a: Block, pivots: Block, info: Block) -> None:
    """LU of every matrix."""
    if not p.count or p.device.type == "meta":
        return
    params = [a.rows, a.cols, min(a.rows, a.cols), a.batch, a.lead, pivots.batch]
    p.steps.append(
        Step(
            kernel_for(p.device, lu_nest, code),
            [place(b) for b in (a, pivots, info)],
            params,
            p.count,
            grain(a.rows * a.cols * 8),
            -1,
        )
    )


def solve(p: Program, code: str, trans: str, lu: Block, pivots: Block, b: Block) -> None:
    """Solutions, over `b`, with the factors of every matrix or (trans T) their transposes."""
    if not p.count * b.rows * b.cols or p.device.type == "meta":
        return
    params = [lu.rows, b.cols, lu.batch, lu.lead, pivots.batch, b.batch, b.lead]
    kernel = kernel_for(p.device, solve_nest, code, trans != "N")
    p.steps.append(
        Step(kernel, [place(x) for x in (lu, pivots, b)], params, p.count, grain(lu.rows * lu.rows * b.cols * 2), -1)
    )


def triangular(p: Program, code: str, a: Block, b: Block, upper: bool, unit: bool) -> None:
    """Solutions of A X = B, over `b`, for a triangle of `a`; of X A = B for the transposes of both."""
    if not p.count * b.rows * b.cols or p.device.type == "meta":
        return
    params = [b.rows, b.cols, a.batch, a.row, a.col, b.batch, b.row, b.col]
    kernel = kernel_for(p.device, triangular_nest, code, upper, unit)
    p.steps.append(Step(kernel, [place(a), place(b)], params, p.count, grain(b.rows * b.rows * b.cols), -1))


def cholesky(p: Program, code: str, a: Block, info: Block, upper: bool) -> None:
    """Cholesky factors, over the triangle that is given."""
    if not p.count or p.device.type == "meta":
        return
    down, along = (a.lead, 1) if upper else (1, a.lead)
    params = [a.rows, a.batch, down, along]
    p.steps.append(
        Step(kernel_for(p.device, cholesky_nest, code), [place(a), place(info)], params, p.count, grain(a.rows**3), -1)
    )


def lu_nest(code: str) -> Nest:
    """Columns in order; the first of the largest numbers is the pivot. A pivot of 0 leaves its column as it is."""
    i, k, r, c, lead, base = (var(n) for n in ("i", "k", "r", "c", "lead", "base"))

    def at(row: Value, col: Value) -> Value:
        return base + col * lead + row

    def a(row: Value, col: Value) -> Value:
        return load(0, at(row, col), code)

    best, size, where, pivot = var("best", code), var("size", code), var("where"), var("pivot", code)
    search = For(
        "r",
        k + ONE,
        var("rows"),
        (Local("size", abs_(a(r, k))), If(gt(size, best), (Assign("best", size), Assign("where", r)))),
    )
    upper, lower = var("upper", code), var("lower", code)
    swap = For("c", ZERO, var("cols"), (
        Local("upper", a(k, c)), Local("lower", a(var("where"), c)), Store(0, at(k, c), lower),
        Store(0, at(where, c), upper)))
    scale = For("r", k + ONE, var("rows"), (Store(0, at(r, k), a(r, k) / pivot),))
    failed = If(eq(var("status"), ZERO), (Assign("status", k + ONE),))
    factor_ = var("factor", code)
    update = For("c", k + ONE, var("cols"), (
        Local("factor", neg(a(k, c))),
        For("r", k + ONE, var("rows"), (Store(0, at(r, c), fma(a(r, k), factor_, a(r, c))),))))
    column = (
        Local("best", abs_(a(k, k))), Local("where", k), search, Store(1, i * var("pb") + k, where + ONE),
        If(ne(where, k), (swap,)), Local("pivot", a(k, k)), If(eq(pivot, const(0.0, code)), (failed,), (scale,)),
        update,
    )
    body = (
        Local("base", i * var("ab")),
        Local("status", ZERO),
        For("k", ZERO, var("least"), column),
        Store(2, i, var("status")),
    )
    return Nest(
        "small_lu", operands([], [code, "i64", "i64"]), ("rows", "cols", "least", "ab", "lead", "pb"), rows(*body)
    )


def solve_nest(code: str, transposed: bool) -> Nest:
    """P L U X = B: exchanges, then a unit lower and an upper triangle; transposed, the other way round."""
    i, c = var("i"), var("c")
    n, right = var("n"), var("right")

    def lu(row: Value, col: Value) -> Value:
        return load(0, i * var("ab") + col * var("lead") + row, code)

    def b(row: Value) -> Value:
        return load(2, right + row, code)

    def exchange(name: str, at: Value) -> For:
        here, there = var(f"{name}.a", code), var(f"{name}.b", code)
        other = var(f"{name}.o")
        return For(name, ZERO, n, (
            Local(f"{name}.k", at), Local(other.attr, load(1, i * var("pb") + var(f"{name}.k"), "i64") - ONE),
            Local(here.attr, b(var(f"{name}.k"))), Local(there.attr, b(other)),
            Store(2, right + var(f"{name}.k"), there), Store(2, right + other, here)))

    def triangle(name: str, forward: bool, entry: Callable, unit: bool) -> For:
        return substitution(name, code, forward, entry, unit, (2, lambda row: right + row))

    if transposed:
        steps = [triangle("u", True, lambda row, col: lu(col, row), False),
                 triangle("l", False, lambda row, col: lu(col, row), True),
                 exchange("x", n - ONE - var("x"))]
    else:
        steps = [exchange("x", var("x")), triangle("l", True, lu, True), triangle("u", False, lu, False)]
    body = For("c", ZERO, var("columns"), (Local("right", i * var("bb") + c * var("blead")), *steps))
    return Nest(
        "small_lu_solve",
        operands([code, "i64"], [code]),
        ("n", "columns", "ab", "lead", "pb", "bb", "blead"),
        rows(body),
    )


def substitution(
    name: str, code: str, forward: bool, entry: Callable, unit: bool, target: tuple[int, Callable]
) -> For:
    """Row by row of one column, what is known taken away: `entry(row, col)` of the triangle; the column is that
    operand's, its rows where the function says."""
    n, row, total, q = var("n"), var(f"{name}.r"), var(f"{name}.t", code), var(f"{name}.q")
    operand, at = target
    known = (ZERO, row) if forward else (row + ONE, n)
    less = fma(neg(entry(row, q)), load(operand, at(q), code), total)
    step = For(q.attr, *known, (Local(f"{name}.n", less), Assign(total.attr, var(f"{name}.n", code))))
    last = total if unit else total / entry(row, row)
    place_ = var(name) if forward else n - ONE - var(name)
    first = load(operand, at(row), code)
    return For(
        name, ZERO, n, (Local(row.attr, place_), Local(total.attr, first), step, Store(operand, at(row), last))
    )


def triangular_nest(code: str, upper: bool, unit: bool) -> Nest:
    """One triangle; the elements of either operand lie anywhere."""
    i, c = var("i"), var("c")

    def entry(row: Value, col: Value) -> Value:
        return load(0, i * var("ab") + row * var("down") + col * var("along"), code)

    target = (1, lambda row: var("right") + row * var("bdown"))
    column = substitution("t", code, not upper, entry, unit, target)
    body = For("c", ZERO, var("columns"), (Local("right", i * var("bb") + c * var("balong")), column))
    params = ("n", "columns", "ab", "down", "along", "bb", "bdown", "balong")
    return Nest("small_triangular", operands([code], [code]), params, rows(body))


def cholesky_nest(code: str) -> Nest:
    """Columns in order, until one has no positive root."""
    i, j, r, root = var("i"), var("j"), var("r"), var("root", code)

    def at(row: Value, col: Value) -> Value:
        return i * var("ab") + row * var("down") + col * var("along")

    def a(row: Value, col: Value) -> Value:
        return load(0, at(row, col), code)

    def without_known(row: Value, name: str) -> tuple[Statement, ...]:
        """The element of column j, less the products of the columns before it."""
        k, total = var(f"{name}.k"), var(name, code)
        step = Local(f"{name}.n", fma(neg(a(row, k)), a(j, k), total))
        return Local(name, a(row, j)), For(k.attr, ZERO, j, (step, Assign(name, var(f"{name}.n", code))))

    below = For("r", j + ONE, var("n"), (*without_known(r, "rest"), Store(0, at(r, j), var("rest", code) / root)))
    good = (Local("root", sqrt(var("square", code))), Store(0, at(j, j), root), below)
    column = If(eq(var("status"), ZERO), (
        *without_known(j, "square"),
        If(gt(var("square", code), const(0.0, code)), good, (Assign("status", j + ONE),))))
    return Nest("small_cholesky", operands([], [code, "i64"]), ("n", "ab", "down", "along"),
                rows(Local("status", ZERO), For("j", ZERO, var("n"), (column,)),
                     Store(1, i, var("status"))))
