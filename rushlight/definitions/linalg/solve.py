"""Linear systems: general, triangular and factored ones, inverses, and the tensor forms."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op, result_type
from rushlight.planners.factors import panels as factor_panels, small as small_factors, triangles
from rushlight.planners.factors.lapack import Block, Lapack, Program, numel

from .arguments import (
    broadcast_batches,
    check_float,
    check_matrix,
    check_same_dtype,
    check_square,
    first,
    is_vector_side,
    recording,
)
from .factor import factor_lu


def singular_solve(status: int) -> str:
    return "the input matrix is singular."


def singular_inverse(status: int) -> str:
    return f"the input is singular: diagonal element {status} is zero."


# --- general systems --------------------------------------------------------------------------------------------------


class SolveSame(Lapack):
    """A X = B (or X A = B) for operands of one batch shape, with the factorisation of A."""

    schema = (
        "_linalg_solve_same(Tensor A, Tensor B, bool left, str? label) -> (Tensor result, Tensor LU, Tensor pivots,"
        " Tensor info)"
    )
    function = False
    method = False
    batched = ((0, 2), (1, 2))

    def program(self, p, A, B, left, label):
        n, k, code = A.shape[-1], B.shape[-1] if left else B.shape[-2], A.dtype.code
        b = p.input(1, B)
        # X A = B is A^T X^T = B^T: the transposes are column-major where X is row-major.
        result = p.output(A.dtype, n, k) if left else p.output(A.dtype, k, n, row_major=True).t
        lu, wide, _, info = factor_lu(p, A)
        factor_panels.solve(p, code, "N" if left else "T", lu, wide, b if left else b.t, result)
        p.status(p.output(_C.int32), info, label, singular_solve)

    def vjp(self, g, A, left, result):
        g = g[0]
        if g is None:
            return {}
        X, LU, pivots, _ = result
        if recording():
            gB = find_op("linalg_solve")(A.mH, g, left=left)
        else:
            gB = find_op("linalg_lu_solve")(LU, pivots, g, left=left, adjoint=True)
        return {"A": -(gB @ X.mH if left else X.mH @ gB) if A.requires_grad else None, "B": gB}


def solved(name: str, A: Any, B: Any, left: bool, label: str | None) -> tuple[Any, Any, Any, Any]:
    """Check, broadcast, solve; vectors on the right are columns for a while."""
    check_square(name, A)
    check_float(name, A)
    check_same_dtype(name, A, B)
    if B.ndim == 0:
        raise RuntimeError(f"{name}: expected B with at least 1 dimension, got a number.")
    vector = is_vector_side(A, B)
    if vector and not left:
        raise RuntimeError(
            f"{name}: left=False needs B to be a matrix, got a vector. B / A.squeeze(-1) is what it would be"
        )
    if vector:
        B = B.unsqueeze(-1)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes for {'AX = B' if left else 'XA = B'}: A and B are"
            f" ({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    A, B = broadcast_batches(name, A, B)
    X, LU, pivots, info = find_op("_linalg_solve_same")(A, B, left, label)
    return X.squeeze(-1) if vector else X, LU, pivots, info


class SolveExLu(Composite):
    """solve_ex, with the factorisation of A."""

    schema = (
        "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU,"
        " Tensor pivots, Tensor info)"
    )
    function = False
    method = False

    def compute(self, A, B, left, check_errors):
        return result_type("_linalg_solve_ex", self.spec.return_names)(
            solved("linalg.solve", A, B, left, "linalg.solve_ex" if check_errors else None)
        )


class SolveEx(Composite):
    """Solutions of A X = B, and per matrix the first zero pivot, or 0."""

    schema = (
        "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor"
        " info)"
    )
    namespace = "linalg"
    method = False

    def compute(self, A, B, left, check_errors):
        X, _, _, info = solved("linalg.solve", A, B, left, "linalg.solve_ex" if check_errors else None)
        return result_type("linalg_solve_ex", self.spec.return_names)((X, info))


class Solve(Composite):
    """Solutions X of A X = B, or of X A = B with left=False."""

    schema = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, A, B, left):
        return solved("linalg.solve", A, B, left, "linalg.solve")[0]


# --- inverses ---------------------------------------------------------------------------------------------------------


class _Inverse(Lapack):
    """A^-1: of small matrices by solving with the identity, of others from their factors."""

    namespace = "linalg"
    method = False

    def check(self, A, *rest):
        check_square("linalg.inv", A)
        check_float("linalg.inv", A)

    def invert(self, p: Program, A: Any) -> Block:
        n = A.shape[-1]
        result = p.output(A.dtype, n, n)
        lu, wide, _, info = factor_lu(p, A, "temporary")
        factor_panels.invert(p, A.dtype.code, lu, wide, result)
        return info

    def vjp(self, g, result):
        g, X = first(g), first(result).mH
        return {} if g is None else {"A": -(X @ (g @ X))}


class InvEx(_Inverse):
    """Inverses, and per matrix the first zero pivot, or 0."""

    schema = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"

    def program(self, p, A, check_errors):
        info = self.invert(p, A)
        p.status(p.output(_C.int32), info, "linalg.inv_ex" if check_errors else None, singular_inverse)


class Inv(_Inverse):
    """Inverses of square matrices."""

    schema = "linalg_inv(Tensor A) -> Tensor"

    def program(self, p, A):
        p.status(None, self.invert(p, A), "linalg.inv", singular_inverse)


class Inverse(_Inverse):
    """Inverses of square matrices."""

    schema = "inverse(Tensor input) -> Tensor"
    namespace = None
    method = True

    def program(self, p, input):
        p.status(None, self.invert(p, input), "linalg.inv", singular_inverse)

    def vjp(self, g, result):
        return {"input": super().vjp(g, result)["A"]}


# --- triangular systems -----------------------------------------------------------------------------------------------


class TriangularSame(Lapack):
    """Triangular solve for operands of one batch shape."""

    schema = "_solve_triangular_same(Tensor A, Tensor B, bool upper, bool left, bool unitriangular) -> Tensor"
    function = False
    method = False
    batched = ((0, 2), (1, 2))

    def program(self, p, A, B, upper, left, unitriangular):
        m, n, code, order = B.shape[-2], B.shape[-1], B.dtype.code, A.shape[-1]
        a, result = p.input(0, A), p.output(B.dtype, m, n)
        if triangles.suits(p, code, order, n if left else m):
            b = triangles.right_sides(p, code, m, n) if left else result.t
            p.copy(p.input(1, B) if left else p.input(1, B).t, b)
            triangles.solve(p, code, a if left else a.t, b, upper != left, unitriangular)
            if left:
                p.copy(b, result)
            return
        p.copy(p.input(1, B), result)
        if p.shares and small_factors.is_small(code, m, n, most=small_factors.SMALL_TRIANGLE):
            sides = (a, result) if left else (a.t, result.t)
            small_factors.triangular(p, code, *sides, upper == left, unitriangular)
            return
        trans = "N"
        if a.row != 1 or a.col < max(order, 1):
            if a.col == 1 and a.row >= max(order, 1):   # row-major: the transpose, whose triangle is the other one
                a, trans, upper = a.t, "T", not upper
            else:
                dense = p.temporary(A.dtype, order, order)
                p.copy(a, dense)
                a = dense
        if m and n:
            form = ("L" if left else "R", "U" if upper else "L", trans, "U" if unitriangular else "N")
            factor_panels.triangular(p, code, form, a, result)

    def vjp(self, g, A, upper, left, unitriangular, result):
        solve = find_op("linalg_solve_triangular")
        gB = solve(A.mH, g, upper=not upper, left=left, unitriangular=unitriangular)
        gA = None
        if A.requires_grad:
            gA = -(gB @ result.mH if left else result.mH @ gB)
            skip = 1 if unitriangular else 0
            gA = gA.triu(skip) if upper else gA.tril(-skip)
        return {"A": gA, "B": gB}


class SolveTriangular(Composite):
    """Solutions of A X = B (X A = B with left=False) for triangular A; the other triangle is not read."""

    schema = (
        "linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"
    )
    namespace = "linalg"
    method = False

    def compute(self, A, B, upper, left, unitriangular):
        name = "linalg.solve_triangular"
        check_square(name, A)
        check_matrix(name, B, "B")
        check_float(name, A)
        check_same_dtype(name, A, B)
        if B.shape[-2 if left else -1] != A.shape[-1]:
            raise RuntimeError(
                f"{name}: Incompatible shapes for {'AX = B' if left else 'XA = B'}: A and B are"
                f" ({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
            )
        A, B = broadcast_batches(name, A, B)
        return find_op("_solve_triangular_same")(A, B, upper, left, unitriangular)


class TriangularSolve(Composite):
    """The older form of solve_triangular: B first, and a copy of A comes back."""

    schema = (
        "triangular_solve(Tensor input, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) ->"
        " (Tensor solution, Tensor cloned_coefficient)"
    )

    def compute(self, input, A, upper, transpose, unitriangular):
        if input.ndim < 2 or A.ndim < 2:
            raise RuntimeError(
                f"triangular_solve: Expected b and A to have at least 2 dimensions, but they have {input.ndim} and"
                f" {A.ndim} dimensions instead"
            )
        check_square("triangular_solve", A)
        check_float("triangular_solve", A)
        check_same_dtype("triangular_solve", input, A, ("b", "A"))
        if input.shape[-2] != A.shape[-1]:
            raise RuntimeError(
                f"triangular_solve: Incompatible matrix sizes: each A matrix is {A.shape[-1]} by {A.shape[-1]} but each"
                f" b matrix is {input.shape[-2]} by {input.shape[-1]}"
            )
        A, input = broadcast_batches("triangular_solve", A, input)
        operand, is_upper = (A.mT, not upper) if transpose else (A, upper)
        solution = find_op("linalg_solve_triangular")(operand, input, upper=is_upper, unitriangular=unitriangular)
        return result_type("triangular_solve", self.spec.return_names)((solution, A.clone()))


# --- from factors -----------------------------------------------------------------------------------------------------


class LuSolveSame(Lapack):
    """op(A) X = B from LU factors, for operands of one batch shape."""

    schema = "_linalg_lu_solve_same(Tensor LU, Tensor pivots, Tensor B, bool adjoint) -> Tensor"
    function = False
    method = False
    batched = ((0, 2), (1, 1), (2, 2))

    def program(self, p, LU, pivots, B, adjoint):
        n, k, code = B.shape[-2], B.shape[-1], B.dtype.code
        result = p.output(B.dtype, n, k)
        lu = p.input(0, LU)
        if lu.row != 1 or lu.col < max(n, 1):
            dense = p.temporary(B.dtype, n, n)
            p.copy(lu, dense)
            lu = dense
        wide = p.temporary(_C.int64, n)
        p.exchanges(p.input(1, pivots, core=1), wide, n, "linalg.lu_solve")
        factor_panels.solve(p, code, "C" if adjoint else "N", lu, wide, p.input(2, B), result)

    def vjp(self, g, LU, pivots, adjoint, result):
        gB = find_op("linalg_lu_solve")(LU, pivots, g, adjoint=not adjoint)
        gLU = None
        if LU.requires_grad:
            gA = -(result @ gB.mH if adjoint else gB @ result.mH)
            P, L, U = find_op("lu_unpack")(LU, pivots)
            inner = P.mT @ gA
            gLU = (inner @ U.mH).tril(-1) + (L.mH @ inner).triu()
        return {"LU": gLU, "B": gB}


class LinalgLuSolve(Composite):
    """Solutions of A X = B (X A = B with left=False, A^H for A with adjoint) from the LU factors of A."""

    schema = "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, LU, pivots, B, left, adjoint):
        name = "linalg.lu_solve"
        check_square(name, LU, "LU")
        check_matrix(name, B, "B")
        check_float(name, LU)
        check_same_dtype(name, LU, B, ("LU", "B"))
        if pivots.dtype is not _C.int32:
            raise RuntimeError(f"{name}: expected pivots of dtype int32, got {pivots.dtype.name}")
        if B.shape[-2 if left else -1] != LU.shape[-1]:
            raise RuntimeError(
                f"{name}: Incompatible shapes for {'AX = B' if left else 'XA = B'}: A and B are"
                f" ({LU.shape[-2]}x{LU.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
            )
        if LU.shape[-1] != pivots.shape[-1]:
            raise RuntimeError(
                f"{name}: expected one pivot per row of the matrix, got {pivots.shape[-1]} for {LU.shape[-1]}"
            )
        if tuple(LU.shape[:-1]) != tuple(pivots.shape):
            raise RuntimeError(f"{name}: expected pivots of the shape LU.shape[:-1], got {list(pivots.shape)}")
        LU, B = broadcast_batches(name, LU, B)
        pivots = pivots.expand(LU.shape[:-1])
        if left:
            return find_op("_linalg_lu_solve_same")(LU, pivots, B, adjoint)
        return find_op("_linalg_lu_solve_same")(LU, pivots, B.mH, not adjoint).mH


class LuSolve(Composite):
    """The older form of linalg.lu_solve, B first."""

    schema = "lu_solve(Tensor input, Tensor LU_data, Tensor LU_pivots) -> Tensor"

    def compute(self, input, LU_data, LU_pivots):
        return find_op("linalg_lu_solve")(LU_data, LU_pivots, input)


class CholeskySolveSame(Lapack):
    """L L^H X = B for operands of one batch shape."""

    schema = "_cholesky_solve_same(Tensor B, Tensor L, bool upper) -> Tensor"
    function = False
    method = False
    batched = ((0, 2), (1, 2))

    def program(self, p, B, L, upper):
        n, k = B.shape[-2], B.shape[-1]
        result, l = p.output(B.dtype, n, k), p.input(1, L)
        if triangles.suits(p, B.dtype.code, n, k):
            x, lower = triangles.right_sides(p, B.dtype.code, n, k), l.t if upper else l
            p.copy(p.input(0, B), x)
            triangles.solve(p, B.dtype.code, lower, x, lower=True, unit=False)
            triangles.solve(p, B.dtype.code, lower.t, x, lower=False, unit=False)
            p.copy(x, result)
            return
        if l.row != 1 or l.col < max(n, 1):
            dense = p.temporary(B.dtype, n, n)
            p.copy(l, dense)
            l = dense
        p.copy(p.input(0, B), result)
        p.call(
            "potrs",
            B.dtype.code,
            "U" if upper else "L",
            n,
            k,
            l,
            l.lead,
            result,
            result.lead,
            p.temporary(_C.int64),
            work=n * n * k,
        )

    def vjp(self, g, L, upper, result):
        gB = find_op("cholesky_solve")(g, L, upper)
        gL = None
        if L.requires_grad:
            both = gB @ result.mH
            both = -(both + both.mH)
            gL = L @ both if upper else both @ L   # for all of a triangular L, as PyTorch has it
        return {"B": gB, "L": gL}


class CholeskySolve(Composite):
    """Solutions of A X = B from the Cholesky factor of A."""

    schema = "cholesky_solve(Tensor B, Tensor L, bool upper=False) -> Tensor"

    def compute(self, B, L, upper):
        if B.ndim < 2 or L.ndim < 2:
            raise RuntimeError(
                f"cholesky_solve: b and A should have at least 2 dimensions, but they have {B.ndim} and {L.ndim}"
                " dimensions instead"
            )
        check_square("cholesky_solve", L)
        check_float("cholesky_solve", L)
        check_same_dtype("cholesky_solve", B, L, ("b", "A"))
        if B.shape[-2] != L.shape[-1]:
            raise RuntimeError(
                f"cholesky_solve: Incompatible matrix sizes: each A matrix is {L.shape[-1]} by {L.shape[-1]} but each b"
                f" matrix is {B.shape[-2]} by {B.shape[-1]}"
            )
        B, L = broadcast_batches("cholesky_solve", B, L)
        return find_op("_cholesky_solve_same")(B, L, upper)


# --- tensor forms -----------------------------------------------------------------------------------------------------


class TensorInv(Composite):
    """The inverse of the linear map that a tensor is, from its last dims to its first `ind` dims."""

    schema = "linalg_tensorinv(Tensor A, int ind=2) -> Tensor"
    views = "keep"
    namespace = "linalg"
    method = False

    def compute(self, A, ind):
        if ind <= 0:
            raise RuntimeError("linalg.tensorinv: Expected a strictly positive integer for 'ind'")
        above, below = tuple(A.shape[:ind]), tuple(A.shape[ind:])
        if numel(above) != numel(below):
            raise RuntimeError(
                "linalg.tensorinv: Expected A to satisfy the requirement prod(A.shape[ind:]) == prod(A.shape[:ind]),"
                f" got {list(below)} and {list(above)}"
            )
        return find_op("linalg_inv")(A.reshape(numel(below), numel(above))).reshape((*below, *above))


class TensorSolve(Composite):
    """X such that tensordot(A, X) is B; `dims` of A are moved to its end first."""

    schema = "linalg_tensorsolve(Tensor A, Tensor B, int[]? dims=None) -> Tensor"
    views = "keep"
    namespace = "linalg"
    method = False

    def compute(self, A, B, dims):
        if dims is not None:
            moved = [d % A.ndim for d in dims]
            A = A.movedim(list(dims), list(range(A.ndim - len(moved), A.ndim)))
        result = tuple(A.shape[B.ndim :])
        if numel(result) != numel(tuple(A.shape[: B.ndim])):
            raise RuntimeError(
                "linalg.tensorsolve: Expected A to satisfy the requirement prod(A.shape[B.ndim:]) =="
                f" prod(A.shape[:B.ndim]), got {list(result)} and {list(A.shape[: B.ndim])}"
            )
        return find_op("linalg_solve")(A.reshape(-1, numel(result)), B.reshape(-1)).reshape(result)
