"""Approximations by a few singular or eigenvectors: randomised SVD, principal components, and lobpcg."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op

from .arguments import check_square
from .svd import epsilon


def basis(A: Any, q: int, niter: int) -> Any:
    """Orthonormal columns that nearly span A's largest singular directions, found by iterating on random ones."""
    qr = find_op("linalg_qr")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        A = A.to(_C.get_default_dtype())
    Q = qr(A @ find_op("randn")((A.shape[-1], q), dtype=A.dtype, device=A.device))[0]
    for _ in range(niter):
        Q = qr(A.mH @ Q)[0]
        Q = qr(A @ Q)[0]
    return Q


def approximate(A: Any, q: int, niter: int) -> tuple[Any, Any, Any]:
    """U, S, V of the best approximation within a random basis; the shorter side is searched."""
    transposed = A.shape[-2] < A.shape[-1]
    if transposed:
        A = A.mH
    Q = basis(A, q, niter)
    U, S, Vh = find_op("linalg_svd")(Q.mH @ A, False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if transposed else (U, S, V)


class SvdLowrank(Composite):
    """A randomised SVD of rank q of A, or of A - M."""

    schema = "svd_lowrank(Tensor A, int? q=6, int? niter=2, Tensor? M=None) -> (Tensor, Tensor, Tensor)"
    views = "keep"
    method = False
    out = False

    def compute(self, A, q, niter, M):
        if A.ndim < 2:
            raise ValueError(f"svd_lowrank: expected a matrix or a batch of them, got shape {list(A.shape)}")
        if M is not None:
            A = A - M.expand(A.shape)
        return approximate(A, 6 if q is None else q, 2 if niter is None else niter)


class PcaLowrank(Composite):
    """Principal components: the randomised SVD of A with the mean of its rows taken away."""

    schema = "pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> (Tensor, Tensor, Tensor)"
    views = "keep"
    method = False
    out = False

    def compute(self, A, q, center, niter):
        m, n = A.shape[-2], A.shape[-1]
        if q is None:
            q = min(6, m, n)
        elif not 0 <= q <= min(m, n):
            raise ValueError(
                f"pca_lowrank: expected q between 0 and the smaller size of the matrix, {min(m, n)}, got q={q}"
            )
        if not niter >= 0:
            raise ValueError(f"pca_lowrank: expected niter of at least 0, got niter={niter}")
        if not A.dtype.is_floating_point and not A.dtype.is_complex:
            raise ValueError(f"pca_lowrank: expected a floating point matrix, got {A.dtype.name}")
        return approximate(A - A.mean(-2, True) if center else A, q, niter)


# --- lobpcg -----------------------------------------------------------------------------------------------------------


class Lobpcg(Composite):
    """The k largest (or smallest) eigenvalues of A x = lambda B x, A symmetric and B positive-definite, by iteration.

    Where a gradient is wanted the whole spectrum is computed instead, since iterations are not differentiated.
    """

    schema = (
        "lobpcg(Tensor A, int? k=None, Tensor? B=None, Tensor? X=None, int? n=None, Tensor? iK=None, int? niter=None,"
        " float? tol=None, bool? largest=None, str? method=None, any tracker=None, any ortho_iparams=None, any"
        " ortho_fparams=None, any ortho_bparams=None) -> (Tensor, Tensor)"
    )
    method = False
    out = False

    def compute(
        self, A, k, B, X, n, iK, niter, tol, largest, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams
    ):
        check_square("lobpcg", A)
        if method not in (None, "ortho", "basic"):
            raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', got {method!r}")
        for label, value in (
            ("tracker", tracker),
            ("ortho_iparams", ortho_iparams),
            ("ortho_fparams", ortho_fparams),
            ("ortho_bparams", ortho_bparams),
        ):
            if value:
                raise NotImplementedError(
                    f"lobpcg: {label} is not supported, since vectors are orthonormalised by QR. Leave it at None."
                )
        k = k if k is not None else X.shape[-1] if X is not None else 1
        n = k if n is None else n
        if A.shape[-1] < 3 * n:
            raise ValueError(
                f"lobpcg: A needs at least 3 rows for each eigenpair asked for, got {A.shape[-1]} rows for {n}"
            )
        largest = True if largest is None else largest
        if A.requires_grad or (B is not None and B.requires_grad):
            return dense_pairs(A, B, k, largest)
        if X is None:
            X = find_op("randn")((*A.shape[:-2], A.shape[-1], n), dtype=A.dtype, device=A.device)
        return iterate(
            A,
            B,
            X,
            iK,
            k,
            1000 if niter is None or niter < 0 else niter,
            epsilon(A.dtype) ** 0.5 if tol is None else tol,
            largest,
        )


def dense_pairs(A: Any, B: Any, k: int, largest: bool) -> tuple[Any, Any]:
    """The wanted eigenpairs from all of them."""
    solve = find_op("linalg_solve_triangular")
    if B is not None:
        L = find_op("linalg_cholesky")(B)
        A = solve(L.mH, solve(L, A, upper=False), upper=True, left=False)
    E, V = find_op("linalg_eigh")(A)
    if largest:
        E, V = E.flip(-1), V.flip(-1)
    E, V = E.narrow(-1, 0, k), V.narrow(-1, 0, k)
    return E, V if B is None else solve(L.mH, V, upper=True)


def ritz(A: Any, B: Any, S: Any, count: int, largest: bool) -> tuple[Any, Any]:
    """The best eigenpairs within the span of S."""
    S = find_op("linalg_qr")(S)[0]
    inner = S.mH @ A @ S
    E, Z = dense_pairs((inner + inner.mH) / 2, None if B is None else S.mH @ B @ S, count, largest)
    return E, S @ Z


def iterate(A: Any, B: Any, X: Any, iK: Any, k: int, niter: int, tol: float, largest: bool) -> tuple[Any, Any]:
    """Search within the span of estimates, preconditioned residuals and the last directions."""
    n, cat = X.shape[-1], find_op("cat")
    E, X = ritz(A, B, X, n, largest)
    scale = A.abs().sum(-1).amax().item()
    P = None
    for _ in range(niter):
        BX = X if B is None else B @ X
        R = A @ X - BX * E.unsqueeze(-2)
        sizes = find_op("linalg_vector_norm")(R, 2, (-2,)).narrow(-1, 0, k)
        if (sizes <= tol * scale).all().item():
            break
        W = R if iK is None else iK @ R
        E, new = ritz(A, B, cat([X, W] if P is None else [X, W, P], -1), n, largest)
        P = new - X @ (X.mH @ new)
        X = new
    return E.narrow(-1, 0, k), X.narrow(-1, 0, k)
