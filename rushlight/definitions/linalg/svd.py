"""Singular values, and what is computed from them: pseudo-inverses, ranks, low-rank approximations."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op, result_type
from rushlight.planners.factors import bidiagonal
from rushlight.planners.factors.lapack import LENGTH, WORK, Lapack, Scratch

from .arguments import check_float, check_matrix, check_square, real_dtype
from .eigen import check_gauge


def not_converging(status: int) -> str:
    if status < 0:
        return "failed to converge: the input has non-finite values."
    return (
        f"failed to converge: the input is ill-conditioned, or too many singular values coincide (error code {status})."
    )


class SvdOf(Lapack):
    """A = U diag(S) Vh, singular values descending; without compute_uv the values alone."""

    schema = (
        "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U,"
        " Tensor S, Tensor Vh)"
    )
    function = False
    method = False

    def check(self, A, full_matrices, compute_uv, driver):
        check_matrix("linalg.svd", A)
        check_float("linalg.svd", A)
        if driver is not None and A.device.type != "cuda":
            raise RuntimeError(
                f"linalg.svd: driver chooses between CUDA routines, and the input is not on CUDA; got driver={driver!r}"
            )
        if driver not in (None, "gesvd", "gesvdj"):
            raise RuntimeError(f"linalg.svd: expected driver None, 'gesvd' or 'gesvdj', got driver={driver!r}")

    def program(self, p, A, full_matrices, compute_uv, driver):
        m, n, dtype, code = A.shape[-2], A.shape[-1], A.dtype, A.dtype.code
        k, longer = min(m, n), max(m, n)
        sides = (m, n) if full_matrices else (k, k)
        u = p.output(dtype, m, sides[0]) if compute_uv else p.empty(dtype)
        s = p.output(real_dtype(dtype), k)
        vh = p.output(dtype, sides[1], n) if compute_uv else p.empty(dtype)
        info = p.temporary(_C.int64)
        if driver is None and bidiagonal.suits(p, code, longer, k):
            source = p.input(0, A)
            for part in (u, vh) if compute_uv else ():
                p.identity(part)
            given = bidiagonal.singular(
                p, code, source if m >= n else source.t, s, (u, vh) if compute_uv else None, m < n, info
            )
            p.status(None, given, "linalg.svd", not_converging)
            p.status(None, info, "linalg.svd", not_converging)
            return
        a = p.temporary(dtype, m, n)
        p.copy(p.input(0, A), a)
        if not k:
            for part in (u, vh) if compute_uv else ():
                p.identity(part)
            return
        job = "N" if not compute_uv else "A" if full_matrices else "S"
        left, right = (u, vh) if compute_uv else (Scratch(16), Scratch(16))
        reals = k * max(5 * k + 7, 2 * longer + 2 * k + 1) if compute_uv else 7 * k
        extra = (Scratch(reals * 8),) if dtype.is_complex else ()
        routine = "gesvd" if driver == "gesvd" else "gesdd"
        p.call(routine, code, job, m, n, a, a.lead, s, left, max(m, 1), right, max(sides[1], 1), WORK, LENGTH, *extra,
               Scratch(8 * k * 8), info, work=8 * m * n * k)
        p.status(None, info, "linalg.svd", not_converging)

    def vjp(self, g, A, full_matrices, compute_uv, result):
        gU, gS, gVh = g if compute_uv else (None, g[1], None)
        if gU is None and gS is None and gVh is None:
            return {}
        U, S, Vh = result if compute_uv else find_op("linalg_svd")(A, False)
        k = S.shape[-1]
        if full_matrices:
            # The vectors beyond the reduced ones are no function of A.
            U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
            gU = None if gU is None else gU.narrow(-1, 0, k)
            gVh = None if gVh is None else gVh.narrow(-2, 0, k)
        return {"A": svd_gradient(gU, gS, gVh, U, S, Vh)}


def svd_gradient(gU: Any, gS: Any, gVh: Any, U: Any, S: Any, Vh: Any) -> Any:
    """Gradient of A = U diag(S) Vh, reduced."""
    if gU is None and gVh is None:
        return (U * gS.to(U.dtype).unsqueeze(-2)) @ Vh
    m, k, n = U.shape[-2], S.shape[-1], Vh.shape[-1]
    Sc = S.to(U.dtype)
    squares = S * S
    apart = squares.unsqueeze(-2) - squares.unsqueeze(-1) + find_op("eye")(k, dtype=S.dtype, device=S.device)
    turnU = None if gU is None else U.mH @ gU
    turnV = None if gVh is None else Vh @ gVh.mH
    middle = (gS.to(U.dtype) if gS is not None else Sc.new_zeros(Sc.shape)).diag_embed(0, -2, -1)
    phase = None
    if turnU is not None:
        middle = middle + off_diagonal((turnU - turnU.mH) / apart) * Sc.unsqueeze(-2)
        phase = turnU.diagonal(0, -2, -1)
    if turnV is not None:
        middle = middle + Sc.unsqueeze(-1) * off_diagonal((turnV - turnV.mH) / apart)
        phase = -turnV.diagonal(0, -2, -1) if phase is None else phase
    if U.is_complex():
        both = [x.diagonal(0, -2, -1) for x in (turnU, turnV) if x is not None]
        check_gauge("linalg.svd: the singular vectors", both[0] if len(both) == 1 else both[0] + both[1])
        turn = find_op("imag")(phase) / S
        middle = middle + find_op("complex")(turn.new_zeros(turn.shape), turn).diag_embed(0, -2, -1)
    gA = U @ middle @ Vh
    if turnU is not None and m > k:
        gA = gA + ((gU - U @ turnU) / Sc.unsqueeze(-2)) @ Vh
    if turnV is not None and n > k:
        gA = gA + (U / Sc.unsqueeze(-2)) @ (gVh - turnV.mH @ Vh)
    return gA


def off_diagonal(x: Any) -> Any:
    """The matrix with zeros on its diagonal."""
    return x.tril(-1) + x.triu(1)


class LinalgSvd(Composite):
    """Singular vectors and values: A = U diag(S) Vh."""

    schema = "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"
    namespace = "linalg"
    method = False

    def compute(self, A, full_matrices, driver):
        return result_type("linalg_svd", self.spec.return_names)(
            find_op("_linalg_svd")(A, full_matrices, True, driver=driver)
        )


class Svdvals(Composite):
    """Singular values, descending."""

    schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, A, driver):
        return find_op("_linalg_svd")(A, False, A.requires_grad, driver=driver)[1]


class Svd(Composite):
    """The older form of linalg.svd, which returns V; without compute_uv U and V are zeros."""

    schema = "svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"
    views = "keep"

    def compute(self, input, some, compute_uv):
        check_matrix("linalg.svd", input, "input")
        if compute_uv:
            U, S, Vh = find_op("linalg_svd")(input, not some)
            return result_type("svd", self.spec.return_names)((U, S, Vh.mH))
        S = find_op("linalg_svdvals")(input)
        batch, (m, n) = tuple(input.shape[:-2]), input.shape[-2:]
        return result_type("svd", self.spec.return_names)(
            (input.new_zeros((*batch, m, m)), S, input.new_zeros((*batch, n, n)))
        )


# --- pseudo-inverses and ranks ----------------------------------------------------------------------------------------


def tolerances(name: str, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance, each a number or a tensor.
    The relative one is eps * max(m, n) where neither is given."""
    for label, t in (("atol", atol), ("rtol", rtol)):
        if isinstance(t, _C.Tensor) and t.is_complex():
            raise RuntimeError(f"{name}: {label} tensor of complex type is not supported.")
    if rtol is None:
        given = atol is not None and (not isinstance(atol, _C.Tensor) and atol > 0)
        rtol = 0.0 if given else epsilon(A.dtype) * max(A.shape[-2:])
        if isinstance(atol, _C.Tensor):
            rtol = find_op("where")(atol > 0, 0.0, rtol)
    return 0.0 if atol is None else atol, rtol


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number."""
    return 2.0**-23 if real_dtype(dtype) is _C.float32 else 2.0**-52


def threshold(atol: Any, rtol: Any, largest: Any) -> Any:
    """The larger of both tolerances, per matrix and with a last dim of 1, in the values' dtype."""
    relative = (rtol.unsqueeze(-1) if isinstance(rtol, _C.Tensor) else rtol) * largest
    if isinstance(atol, _C.Tensor):
        return find_op("maximum")(atol.unsqueeze(-1).to(relative.dtype), relative)
    return relative.clamp(min=atol)


class PinvOf(Composite):
    """The pseudo-inverse, ignoring singular values below the tolerances."""

    schema = "_linalg_pinv(Tensor A, Tensor|Scalar atol, Tensor|Scalar rtol, bool hermitian) -> Tensor"
    function = False
    method = False

    def compute(self, A, atol, rtol, hermitian):
        if not A.numel():
            return A.new_zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]))
        if hermitian:
            L, V = find_op("linalg_eigh")(A)
            size = L.abs()
            keep = size > threshold(atol, rtol, size.amax(-1, True))
            inverse = find_op("where")(keep, 1 / L, 0.0).to(A.dtype)
            return (V * inverse.unsqueeze(-2)) @ V.mH
        U, S, Vh = find_op("linalg_svd")(A, False)
        keep = S > threshold(atol, rtol, S.narrow(-1, 0, 1))
        inverse = find_op("where")(keep, 1 / S, 0.0).to(A.dtype)
        return (Vh.mH * inverse.unsqueeze(-2)) @ U.mH

    def vjp(self, g, A, result):
        return {"A": pinv_gradient(g, A, result)}


def pinv_gradient(g: Any, A: Any, X: Any) -> Any:
    """Gradient of X = A^+, for perturbations that keep the rank. The smaller of X X^H and X^H X is formed first."""
    Xh, gh = X.mH, g.mH
    total = -(Xh @ g @ Xh)
    gX, Xg = gh @ X, X @ gh
    total = total + (gX - A @ (X @ gX)) @ Xh
    return total + Xh @ (Xg - (Xg @ X) @ A)


class LinalgPinv(Composite):
    """Pseudo-inverses (Moore-Penrose)."""

    schema = (
        "linalg_pinv(Tensor A, *, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, bool hermitian=False) -> Tensor",
        "linalg_pinv(Tensor A, Tensor|Scalar rcond, bool hermitian=False) -> Tensor",
    )
    namespace = "linalg"
    method = False

    def compute(self, A, *rest):
        given = {p.name: a for p, a in zip(self.spec.params[1:], rest, strict=True)}
        check_matrix("linalg.pinv", A)
        check_float("linalg.pinv", A)
        if given["hermitian"]:
            check_square("linalg.pinv", A)
        atol, rtol = (
            (0.0, given["rcond"])
            if "rcond" in given
            else tolerances("torch.linalg.pinv", A, given["atol"], given["rtol"])
        )
        return find_op("_linalg_pinv")(A, atol, rtol, given["hermitian"])


class Pinverse(Composite):
    """The older form of linalg.pinv."""

    schema = "pinverse(Tensor input, float rcond=1e-15) -> Tensor"
    out = False

    def compute(self, input, rcond):
        return find_op("linalg_pinv")(input, rcond)


class MatrixRank(Composite):
    """How many singular values exceed the tolerances."""

    schema = (
        (
            "linalg_matrix_rank(Tensor A, *, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, bool hermitian=False)"
            " -> Tensor"
        ),
        "linalg_matrix_rank(Tensor A, Tensor|Scalar tol, bool hermitian=False) -> Tensor",
    )
    namespace = "linalg"
    method = False

    def compute(self, A, *rest):
        given = {p.name: a for p, a in zip(self.spec.params[1:], rest, strict=True)}
        name = "torch.linalg.matrix_rank"
        check_matrix(name, A)
        if given["hermitian"]:
            check_square(name, A)
        atol, rtol = (given["tol"], 0.0) if "tol" in given else tolerances(name, A, given["atol"], given["rtol"])
        if isinstance(atol, _C.Tensor) and atol.is_complex():
            raise RuntimeError(f"{name}: tol tensor of complex type is not supported.")
        A = A.detach()
        if not A.shape[-1] or not A.shape[-2]:
            batch = tuple(A.shape[:-2])
            return A.new_zeros(batch, dtype=_C.int64)
        S = find_op("linalg_eigvalsh")(A).abs() if given["hermitian"] else find_op("linalg_svdvals")(A)
        return (S > threshold(atol, rtol, S.amax(-1, True))).sum(-1)
