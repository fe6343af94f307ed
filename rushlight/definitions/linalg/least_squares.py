"""Least squares, by any of LAPACK's four drivers."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight.base.shape import reaches
from rushlight.op import Composite, find_op, result_type
from rushlight.planners.factors import panels as factor_panels, reflections, triangles
from rushlight.planners.factors.lapack import LENGTH, WORK, Block, Lapack, Number, Program, Scratch
from rushlight.rules.levels import readable

from .arguments import (
    broadcast_batches,
    check_float,
    check_matrix,
    check_same_dtype,
    is_vector_side,
    real_dtype,
)
from .svd import epsilon, pinv_gradient

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
# gelsy with the columns in their order, whose reflections are products; with the largest column next, whose are not;
# what gels and gelsy both do where rows are no fewer than columns and numbers are well in range; and gels elsewhere
IN_ORDER, BY_SIZE, BY_PANELS, PLAIN = "gelsy in order", "gelsy by size", "by panels", "gels of LAPACK"
ORDERED = 64     # the size from which the order as it is is tried first
SMALLEST = 25    # the size below which gelsd does not divide a problem


def not_solved(status: int) -> str:
    return f"no solution: the input does not have full rank (error code {status})."


class LstsqSame(Lapack):
    """Least squares for operands of one batch shape: [solution; what remains] of max(m, n) rows, ranks,
    singular values."""

    schema = (
        "_linalg_lstsq_same(Tensor A, Tensor B, float rcond, str driver) -> (Tensor solution, Tensor rank, Tensor"
        " singular_values)"
    )
    function = False
    method = False
    out = False
    differentiable = False
    batched = ((0, 2), (1, 2))

    def program(self, p, A, B, rcond, driver):
        m, n, count, dtype = A.shape[-2], A.shape[-1], B.shape[-1], A.dtype
        solution = p.output(dtype, max(m, n), count)
        is_plain = driver in ("gels", PLAIN)
        rank = p.empty(_C.int64) if is_plain else p.output(_C.int64)
        if driver == BY_PANELS:
            p.empty(real_dtype(dtype))
            by_panels(p, dtype, A, B, rcond, solution, rank)
            return
        singular = (
            p.output(real_dtype(dtype), min(m, n)) if driver in ("gelsd", "gelss") else p.empty(real_dtype(dtype))
        )
        a, info = p.temporary(dtype, m, n), p.temporary(_C.int64)
        p.copy(p.input(0, A), a)
        p.constant(solution, 0)
        p.copy(p.input(1, B), solution.top(m))
        if not min(m, n):
            if is_plain:
                p.constant(solution, 0)
            if rank is not None:
                p.constant(rank, 0)
            return
        shape = (m, n, count, a, a.lead, solution, solution.lead)
        if is_plain:
            p.call("gels", dtype.code, "N", *shape, WORK, LENGTH, info, work=m * n * min(m, n))
        else:
            self.ranked(p, driver, dtype, shape, rcond, rank, singular, info)
        p.status(None, info, "torch.linalg.lstsq", not_solved)

    def is_planned(self, args):
        A, _, _, driver = args
        is_large = reaches(A.shape[-2], ORDERED) and reaches(A.shape[-1], ORDERED)
        is_tried = is_large and (driver == "gelsy" or (driver == "gels" and is_tall(A)))
        return not is_tried or A.is_meta or not A.numel()

    def run(self, A, B, rcond, driver):
        """Where a large matrix has full rank with its columns as they are, none needs to be moved."""
        if driver not in ("gels", "gelsy") or A.device.type != "cpu":
            return super().run(A, B, rcond, driver)
        if driver == "gels" and not is_tall(A):
            return super().run(A, B, rcond, PLAIN)
        solve, full = find_op(self.spec.name), min(A.shape[-2:])
        if is_tall(A):
            # gels refuses singular triangles alone: whatever can be divided by is its solution.
            solution, rank, singular = solve(A, B, rcond if driver == "gelsy" else 0.0, BY_PANELS)
            if bool((rank == full).all()):
                return solution, A.new_empty((0,), dtype=_C.int64) if driver == "gels" else rank, singular
            return solve(A, B, rcond, PLAIN if driver == "gels" else BY_SIZE)
        result = solve(A, B, rcond, IN_ORDER)
        return result if bool((result[1] == full).all()) else solve(A, B, rcond, BY_SIZE)

    def ranked(
        self,
        p: Program,
        driver: str,
        dtype: Any,
        shape: tuple,
        rcond: float,
        rank: Block,
        singular: Block | None,
        info: Block,
    ) -> None:
        """The drivers that find the rank."""
        m, n, count = shape[:3]
        least, cut = min(m, n), Number(rcond, real=True)
        if driver in ("gelsy", IN_ORDER, BY_SIZE):
            pivots = p.temporary(_C.int64, n)
            p.constant(pivots, int(driver == IN_ORDER))     # columns marked by 1 keep their places
            extra = (Scratch(2 * n * 8),) if dtype.is_complex else ()
            p.call("gelsy", dtype.code, *shape, pivots, cut, rank, WORK, LENGTH, *extra, info, work=m * n * least)
            return
        if driver == "gelss":
            extra = (Scratch(5 * least * 8),) if dtype.is_complex else ()
        else:
            levels = max(0, int(math.log2(least / (SMALLEST + 1))) + 1)
            longest = max(m, n)
            reals = (
                10 * longest
                + 2 * longest * SMALLEST
                + 8 * longest * levels
                + 3 * SMALLEST * count
                + max((SMALLEST + 1) ** 2, longest * (1 + count) + 2 * count)
            )
            extra = ((Scratch(reals * 8),) if dtype.is_complex else ()) + (
                Scratch((3 * least * levels + 11 * least) * 8),
            )
        p.call(driver, dtype.code, *shape, singular, cut, rank, WORK, LENGTH, *extra, info, work=m * n * least)


def is_tall(A: Any) -> bool:
    """Whether panels of reflections solve for systems with A, if it has full rank."""
    return not A.dtype.is_complex and reaches(A.shape[-1], ORDERED) and reaches(A.shape[-2] - A.shape[-1], 0)


def by_panels(p: Program, dtype: Any, A: Any, B: Any, rcond: float, solution: Block, rank: Block) -> None:
    """[R^-1 Q^T B; what remains of Q^T B], and the number of columns as the rank, or 0 where that is no answer."""
    m, n, count, code = A.shape[-2], A.shape[-1], B.shape[-1], dtype.code
    both = reflections.memory(p, code, m, n + count)
    right = both.at(0, n, m, count)
    p.copy(p.input(0, A), both.left(n))
    p.copy(p.input(1, B), right)
    reflections.factor(p, code, both, n, p.temporary(dtype, n))
    r = both.at(0, 0, n, n)
    reflections.is_full(p, code, r, right, rcond, rank)
    if m > n:
        p.copy(right.at(n, 0, m - n, count), solution.at(n, 0, m - n, count))
    if triangles.suits(p, code, n, count):
        x = triangles.right_sides(p, code, n, count)
        p.copy(right.top(n), x)
        triangles.solve(p, code, r, x, lower=False, unit=False)
        p.copy(x, solution.top(n))
        return
    p.copy(right.top(n), solution.top(n))
    if count:
        factor_panels.triangular(p, code, ("L", "U", "N", "N"), r, solution.top(n))


class Lstsq(Composite):
    """X that minimises |A X - B|, and as the driver gives them residuals, ranks and singular values."""

    schema = (
        "linalg_lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor"
        " residuals, Tensor rank, Tensor singular_values)"
    )
    namespace = "linalg"
    method = False

    def compute(self, A, B, rcond, driver):
        name = "torch.linalg.lstsq"
        check_matrix(name, A, "input")
        check_float(name, A)
        check_same_dtype(name, A, B, ("input", "other"))
        if B.ndim < 1:
            raise RuntimeError(f"{name}: other must have at least 1 dimension.")
        on_cuda = A.device.type == "cuda"
        driver = ("gels" if on_cuda else "gelsy") if driver is None else driver
        if driver not in DRIVERS or (on_cuda and driver != "gels"):
            known = "'gels' on CUDA" if on_cuda else "'gels', 'gelsy', 'gelsd' or 'gelss'"
            raise RuntimeError(f"{name}: expected driver {known}, got {driver!r}")
        vector = is_vector_side(A, B)
        if vector:
            B = B.unsqueeze(-1)
        if A.shape[-2] != B.shape[-2]:
            raise RuntimeError(
                f"{name}: input.size(-2) should match other.size({'-1' if vector else '-2'}), got {A.shape[-2]} and"
                f" {B.shape[-2]}"
            )
        if A.ndim - B.ndim > 1:
            raise RuntimeError(f"{name}: expected other with as many dimensions as input, or one less")
        A, B = broadcast_batches(name, A, B)
        result = find_op("_linalg_lstsq_diff")(
            A, B, epsilon(A.dtype) * max(A.shape[-2:]) if rcond is None else rcond, driver
        )
        solution = result[0].squeeze(-1) if vector else result[0]
        return result_type("linalg_lstsq", self.spec.return_names)((solution, result[1], result[2], result[3].detach()))


class LstsqDiff(Composite):
    """lstsq for operands of one batch shape, with its derivative."""

    schema = (
        "_linalg_lstsq_diff(Tensor A, Tensor B, float rcond, str driver) -> (Tensor solution, Tensor residuals, Tensor"
        " rank, Tensor singular_values)"
    )
    function = False
    method = False
    out = False

    def compute(self, A, B, rcond, driver):
        m, n = A.shape[-2], A.shape[-1]
        whole, rank, singular = find_op("_linalg_lstsq_same")(A, B, rcond, driver)
        residuals = A.new_empty((0,), dtype=real_dtype(A.dtype))
        if m > n and driver != "gelsy" and (driver == "gels" or not readable(A) or (rank == n).all().item()):
            rest = whole.narrow(-2, n, m - n).abs()
            residuals = (rest * rest).sum(-2)
        return whole.narrow(-2, 0, n), residuals, rank, singular

    def vjp(self, g, A, B, result):
        gX, gR = g[0], g[1]
        X = result[0]
        gA, gB = A.new_zeros(A.shape), B.new_zeros(B.shape)
        if gX is not None:
            inverse = find_op("linalg_pinv")(A)
            gB = inverse.mH @ gX
            if A.requires_grad:
                gA = pinv_gradient(gX @ B.mH, A, inverse)
        if gR is not None and gR.numel():   # X is a minimum, so only A X - B itself moves the residuals
            apart = 2 * gR.unsqueeze(-2) * (A @ X - B)
            gA, gB = gA + apart @ X.mH, gB - apart
        return {"A": gA if A.requires_grad else None, "B": gB}
