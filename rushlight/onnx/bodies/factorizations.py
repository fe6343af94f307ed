"""Factorizations and solutions, column by column: Cholesky, LU with pivots, Householder's QR, triangles.

Every step treats whole matrices and masks what is done already, so that batches go together. Signs and pivots are
LAPACK's. Refuses: complex matrices.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import ops
from .table import body, column, element, positions, repeated, row


def _real(name: str, *matrices: Any) -> None:
    if any(m.dtype.is_complex for m in matrices):
        raise NotImplementedError(f"{name} of complex matrices")


# --- Cholesky ---------------------------------------------------------------------------------------------------------


def _factor(a: Any) -> Any:
    """L of A = L L^T; only the lower half of A is read."""
    _real("the Cholesky factorization", a)
    n = a.shape[-1]
    i = positions(n, a)
    symmetric = a.tril() + a.tril(-1).mT

    def step(k: Any, rest: Any, factor: Any) -> list[Any]:
        c = column(rest, k)
        c = ops["where"](i >= k, c / element(c, k).sqrt(), 0.0)
        factor = ops["where"](i == k, c.unsqueeze(-1), factor)
        return [rest - c.unsqueeze(-1) * c.unsqueeze(-2), factor]

    return repeated(n, step, symmetric, ops["zeros_like"](symmetric))[1]


@body("cholesky", "linalg_cholesky")
def cholesky(A: Any, upper: bool = False) -> Any:
    factor = _factor(A.mT if upper else A)
    return factor.mT if upper else factor


@body("linalg_cholesky_ex")
def cholesky_ex(A: Any, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    factor = cholesky(A, upper)
    info = ops["zeros"](list(A.shape[:-2]), dtype=_C.int32, device=A.device)
    return factor, info


@body("_cholesky_solve_same")
def cholesky_solve(B: Any, L: Any, upper: bool) -> Any:
    lower = L.mT if upper else L
    first = solve_triangle(lower, B, False, True, False)
    return solve_triangle(lower.mT, first, True, True, False)


@body("cholesky_inverse")
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    n = L.shape[-1]
    one = ops["eye"](n, dtype=L.dtype, device=L.device).expand(L.shape)
    return cholesky_solve(one, L, upper)


# --- triangles --------------------------------------------------------------------------------------------------------


@body("_solve_triangular_same")
def solve_triangle(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    _real("solving", A, B)
    if not left:
        return solve_triangle(A.mT, B.mT, not upper, True, unitriangular).mT
    n = A.shape[-1]
    i = positions(n, A).unsqueeze(-1)

    def step(k: Any, x: Any) -> list[Any]:
        at = n - 1 - k if upper else k
        c, found = column(A, at), row(x, at)
        if not unitriangular:
            found = found / element(c, at)
        rest = i < at if upper else i > at
        x = ops["where"](i == at, found.unsqueeze(-2), x)
        return [ops["where"](rest, x - c.unsqueeze(-1) * found.unsqueeze(-2), x)]

    return repeated(n, step, B.clone())[0]


# --- LU ---------------------------------------------------------------------------------------------------------------


@body("linalg_lu_factor_ex")
def lu_factor(A: Any, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:
    _real("the LU factorization", A)
    m, n = A.shape[-2], A.shape[-1]
    count = min(m, n)
    info = ops["zeros"](list(A.shape[:-2]), dtype=_C.int32, device=A.device)
    if not count:
        return A.clone(), ops["zeros"]([*A.shape[:-2], 0], dtype=_C.int32, device=A.device), info
    i, j, at = positions(m, A), positions(n, A), positions(count, A)
    pivots = (at + 1).to(_C.int32).expand((*A.shape[:-2], count)).clone()

    def step(k: Any, a: Any, pivots: Any) -> list[Any]:
        if pivot:
            size = ops["where"](i >= k, column(a, k).abs(), -1.0)
            best = size.argmax(-1, True)
            a = _exchanged(a, i, k, best)
            pivots = ops["where"](at == k, (best + 1).to(_C.int32), pivots)
        c = column(a, k)
        head = element(c, k)
        factors = ops["where"](head == 0, c, c / head)
        factors = ops["where"](i > k, factors, 0.0).unsqueeze(-1)
        a = ops["where"]((i > k).unsqueeze(-1) & (j == k), factors, a)
        return [a - factors * ops["where"](j > k, row(a, k), 0.0).unsqueeze(-2), pivots]

    found, pivots = repeated(count, step, A.clone(), pivots)
    return found, pivots, info


def _exchanged(a: Any, i: Any, k: Any, other: Any) -> Any:
    """Rows k and `other` (one for each matrix) in each other's place."""
    first = row(a, k).unsqueeze(-2)
    where = other.unsqueeze(-1).expand(first.shape)
    second = a.gather(-2, where)
    is_first, is_second = (i == k).unsqueeze(-1), (i == other).unsqueeze(-1)
    return ops["where"](is_first, second, ops["where"](is_second, first, a))


@body("_row_order")
def row_order(pivots: Any, rows: int) -> Any:
    order = positions(rows, pivots).expand((*pivots.shape[:-1], rows)).unsqueeze(-1).clone()
    return _exchanges(order, pivots, False).squeeze(-1)


def _exchanges(b: Any, pivots: Any, backwards: bool) -> Any:
    """Rows exchanged as pivots say, the first one first or last."""
    i, count = positions(b.shape[-2], b), pivots.shape[-1]

    def step(k: Any, b: Any) -> list[Any]:
        at = count - 1 - k if backwards else k
        return [_exchanged(b, i, at, element(pivots, at).to(_C.int64) - 1)]

    return repeated(count, step, b)[0]


@body("_linalg_lu_solve_same")
def lu_solve(LU: Any, pivots: Any, B: Any, adjoint: bool) -> Any:
    if adjoint:
        first = solve_triangle(LU.mT, B, False, True, False)
        return _exchanges(solve_triangle(LU.mT, first, True, True, True), pivots, True)
    first = solve_triangle(LU, _exchanges(B.clone(), pivots, False), False, True, True)
    return solve_triangle(LU, first, True, True, False)


def _sign(pivots: Any, diagonal: Any) -> Any:
    moved = (pivots != positions(pivots.shape[-1], pivots) + 1).sum(-1)
    return ops["where"](moved % 2 == 0, 1.0, -1.0).to(diagonal.dtype)


@body("_linalg_det")
def det(A: Any) -> tuple[Any, Any, Any]:
    found, pivots, _ = lu_factor(A)
    diagonal = found.diagonal(0, -2, -1)
    return diagonal.prod(-1) * _sign(pivots, diagonal), found, pivots


@body("_linalg_slogdet")
def slogdet(A: Any) -> tuple[Any, Any, Any, Any]:
    found, pivots, _ = lu_factor(A)
    diagonal = found.diagonal(0, -2, -1)
    return diagonal.sign().prod(-1) * _sign(pivots, diagonal), diagonal.abs().log().sum(-1), found, pivots


@body("linalg_inv_ex")
def inverse(A: Any, check_errors: bool = False) -> tuple[Any, Any]:
    found, pivots, info = lu_factor(A)
    one = ops["eye"](A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)
    return lu_solve(found, pivots, one, False), info


# --- QR ---------------------------------------------------------------------------------------------------------------


@body("geqrf")
def geqrf(A: Any) -> tuple[Any, Any]:
    """Householder's vectors below the diagonal, R on it and above, and the factors of the reflections."""
    _real("the QR factorization", A)
    m, n = A.shape[-2], A.shape[-1]
    count = min(m, n)
    i, j, at = positions(m, A), positions(n, A), positions(count, A)

    def step(k: Any, a: Any, tau: Any) -> list[Any]:
        c = column(a, k)
        below = ops["where"](i > k, c, 0.0)
        head, rest = element(c, k), (below * below).sum(-1, True)
        beta = -ops["where"](head < 0, -1.0, 1.0) * (head * head + rest).sqrt()
        none = rest == 0
        factor = ops["where"](none, 0.0, (beta - head) / ops["where"](none, 1.0, beta))
        v = below / ops["where"](none, 1.0, head - beta)
        whole = ops["where"](i == k, 1.0, v).unsqueeze(-1)
        taken = factor.unsqueeze(-1) * whole * (whole.mT @ a)
        a = ops["where"](j > k, a - taken, a)
        new = ops["where"](i == k, ops["where"](none, head, beta), ops["where"](i > k, v, c)).unsqueeze(-1)
        return [ops["where"](j == k, new, a), ops["where"](at == k, factor, tau)]

    tau = ops["zeros"]([*A.shape[:-2], count], dtype=A.dtype, device=A.device)
    return repeated(count, step, A.clone(), tau)


def _reflected(a: Any, tau: Any, b: Any, forwards: bool) -> Any:
    """Q b (or, with the reflections the other way round, its transpose times b)."""
    count, i = tau.shape[-1], positions(a.shape[-2], a)

    def step(k: Any, b: Any) -> list[Any]:
        at = k if forwards else count - 1 - k
        v = ops["where"](i == at, 1.0, ops["where"](i > at, column(a, at), 0.0)).unsqueeze(-1)
        return [b - element(tau, at).unsqueeze(-1) * v * (v.mT @ b)]

    return repeated(count, step, b)[0]


@body("linalg_householder_product")
def householder_product(A: Any, tau: Any) -> Any:
    one = ops["eye"](A.shape[-2], A.shape[-1], dtype=A.dtype, device=A.device)
    return _reflected(A, tau, one.expand(A.shape).clone(), False)


@body("ormqr")
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    if not left:
        return ormqr(input, tau, other.mT, True, not transpose).mT
    return _reflected(input, tau, other.clone(), transpose)


@body("linalg_qr")
def qr(A: Any, mode: str = "reduced") -> tuple[Any, Any]:
    found, tau = geqrf(A)
    m, n = A.shape[-2], A.shape[-1]
    size = m if mode == "complete" else min(m, n)
    upper = found.narrow(-2, 0, size).triu()
    if mode == "r":
        return ops["zeros"]([0], dtype=A.dtype, device=A.device), upper
    one = ops["eye"](m, size, dtype=A.dtype, device=A.device).expand((*A.shape[:-2], m, size))
    return _reflected(found, tau, one.clone(), False), upper


@body("_linalg_solve_same")
def solve(A: Any, B: Any, left: bool = True, label: str | None = None) -> tuple[Any, Any, Any, Any]:
    found, pivots, info = lu_factor(A if left else A.mT)
    result = lu_solve(found, pivots, B if left else B.mT, False)
    return (result if left else result.mT), found, pivots, info


@body("linalg_inv")
def inv(A: Any) -> Any:
    return inverse(A)[0]


@body("linalg_lu_factor")
def lu_factors(A: Any, pivot: bool = True) -> tuple[Any, Any]:
    return lu_factor(A, pivot)[:2]
