"""Eigenvalues and eigenvectors, of Hermitian and of general matrices."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import reaches
from rushlight.loops import expr
from rushlight.loops.nest import For, Local, Nest, Store, operands, rows
from rushlight.op import Composite, find_op, result_type
from rushlight.planners.factors import reflections
from rushlight.planners.factors.lapack import LENGTH, SIZES, WORK, Block, Lapack, Program, Scratch, kernel_for, place
from rushlight.rules.levels import readable

from ...op.step import Step
from .arguments import check_float, check_square, real_dtype

APART = 64     # the size from which columns are kept apart


def not_converging(status: int) -> str:
    if status < 0:
        return "failed to converge: the input has non-finite values."
    return f"failed to converge: the input is ill-conditioned, or too many eigenvalues coincide (error code {status})."


def check_gauge(what: str, diagonal: Any) -> None:
    """Complex vectors are known up to a phase: refuse losses whose gradient says that they depend on it."""
    if diagonal.is_complex() and diagonal.numel() and readable(diagonal):
        turn = find_op("imag")(diagonal.detach()).abs().amax().item()
        if turn > 1e-2:
            raise RuntimeError(
                f"{what} of a complex matrix are fixed up to a factor e^{{i phi}} only. The loss depends on that"
                " factor, so its gradient is ill-defined."
            )


# --- Hermitian --------------------------------------------------------------------------------------------------------


class Eigh(Lapack):
    """Eigenvalues in ascending order and, where asked for, orthonormal eigenvectors."""

    schema = "_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"
    function = False
    method = False

    def check(self, A, UPLO, compute_v):
        check_square("linalg.eigh", A)
        check_float("linalg.eigh", A)
        if UPLO.upper() not in ("L", "U"):
            raise RuntimeError(f"linalg.eigh: expected UPLO='L' or UPLO='U', got {UPLO}")

    def program(self, p, A, UPLO, compute_v):
        n, dtype, code = A.shape[-1], A.dtype, A.dtype.code
        values = p.output(real_dtype(dtype), n)
        vectors = p.output(dtype, n, n) if compute_v else p.temporary(dtype, n, n)
        info = p.temporary(_C.int64)
        if not compute_v:
            p.empty(dtype)
        p.copy(p.input(0, A), vectors)
        job, uplo = "V" if compute_v else "N", UPLO.upper()
        integers = 3 + 5 * n
        if dtype.is_complex:
            length, reals = 1 + 2 * n + n * n + 64 * n, 1 + 5 * n + 2 * n * n
            args = [Scratch(length * SIZES[code]), length, Scratch(reals * 8), reals, Scratch(integers * 8), integers]
            p.call("heevd", code, job, uplo, n, vectors, vectors.lead, values, *args, info, work=4 * n * n * n)
        else:
            length = 1 + 6 * n + 2 * n * n + 64 * n
            args = [Scratch(length * SIZES[code]), length, Scratch(integers * 8), integers]
            p.call("syevd", code, job, uplo, n, vectors, vectors.lead, values, *args, info, work=4 * n * n * n)
        p.status(None, info, "linalg.eigh", not_converging)

    def vjp(self, g, A, UPLO, compute_v, result):
        gL, gV = g if compute_v else (g[0], None)
        if gL is None and gV is None:
            return {}
        L, V = result if compute_v else find_op("linalg_eigh")(A, UPLO)
        if gV is None:
            return {"A": (V * gL.to(V.dtype).unsqueeze(-2)) @ V.mH}
        inner = V.mH @ gV
        check_gauge("linalg.eigh: the eigenvectors", inner.diagonal(0, -2, -1))
        apart = L.unsqueeze(-2) - L.unsqueeze(-1)
        apart = apart + find_op("eye")(L.shape[-1], dtype=L.dtype, device=L.device)
        middle = (inner - inner.mH) / (2 * apart)   # the Hermitian part: perturbations are taken to be so
        diagonal = (gL.to(V.dtype) if gL is not None else V.new_zeros(L.shape)).diag_embed(0, -2, -1)
        middle = middle.tril(-1) + middle.triu(1) + diagonal
        return {"A": V @ middle @ V.mH}


class LinalgEigh(Composite):
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one triangle is read."""

    schema = "linalg_eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)"
    namespace = "linalg"
    method = False

    def compute(self, A, UPLO):
        return result_type("linalg_eigh", self.spec.return_names)(find_op("_linalg_eigh")(A, UPLO, True))


class Eigvalsh(Composite):
    """Eigenvalues of Hermitian matrices, ascending."""

    schema = "linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, A, UPLO):
        return find_op("_linalg_eigh")(A, UPLO, A.requires_grad)[0]


# --- general ----------------------------------------------------------------------------------------------------------


class EigOf(Lapack):
    """Complex eigenvalues and, where asked for, eigenvectors of length 1."""

    schema = "_linalg_eig(Tensor A, bool compute_v) -> (Tensor eigenvalues, Tensor eigenvectors)"
    function = False
    method = False

    def program(self, p, A, compute_v):
        n, code = A.shape[-1], A.dtype.code
        dtype = A.dtype if A.dtype.is_complex else A.dtype.to_complex()
        values = p.output(dtype, n)
        vectors = p.output(dtype, n, n) if compute_v else p.empty(dtype)
        a, info = self.square(p, A.dtype, n), p.temporary(_C.int64)
        p.copy(p.input(0, A), a)
        job = "V" if compute_v else "N"
        unused, lead = Scratch(16), max(n, 1)
        if not n:
            return
        if A.dtype.is_complex:
            right = vectors if compute_v else unused
            p.call(
                "geev",
                code,
                "N",
                job,
                n,
                a,
                a.lead,
                values,
                unused,
                1,
                right,
                lead,
                WORK,
                LENGTH,
                Scratch(2 * n * 8),
                info,
                work=10 * n**3,
            )
        else:
            real, imag = p.temporary(A.dtype, n), p.temporary(A.dtype, n)
            right = self.square(p, A.dtype, n) if compute_v else unused
            lead = right.lead if compute_v else lead
            p.call(
                "geev",
                code,
                "N",
                job,
                n,
                a,
                a.lead,
                real,
                imag,
                unused,
                1,
                right,
                lead,
                WORK,
                LENGTH,
                info,
                work=10 * n**3,
            )
            self.unpack(p, code, n, real, imag, right if compute_v else real, values, vectors or values, compute_v)
        p.status(None, info, "linalg.eig", not_converging)

    def square(self, p: Program, dtype: Any, n: int) -> Block:
        """Memory for a matrix: columns of many numbers are not a power of two apart, where they would share few lines
        of a cache."""
        return reflections.memory(p, dtype.code, n, n) if reaches(n, APART) else p.temporary(dtype, n, n)

    def unpack(
        self,
        p: Program,
        code: str,
        n: int,
        real: Block,
        imag: Block,
        packed: Block,
        values: Block,
        vectors: Block,
        with_vectors: bool,
    ) -> None:
        """Pairs of real columns become complex ones."""
        if p.count and p.device.type != "meta":
            kernel = kernel_for(p.device, pairs_nest, code, with_vectors)
            p.steps.append(
                Step(
                    kernel,
                    [place(b) for b in (real, imag, packed, values, vectors)],
                    [n, packed.batch, packed.lead],
                    p.count,
                    max(1, 16384 // (n * n)),
                    -1,
                )
            )

    def vjp(self, g, A, compute_v, result):
        gL, gV = g if compute_v else (g[0], None)
        if gL is None and gV is None:
            return {}
        L, V = result if compute_v else find_op("linalg_eig")(A)
        gA = eig_gradient(gL, gV, L, V)
        return {"A": gA if A.is_complex() else find_op("real")(gA)}


def pairs_nest(code: str, with_vectors: bool) -> Nest:
    """Complex values from real and imaginary parts; vectors of a conjugate pair are columns c and c + 1 as re and
    im."""
    i, r, c, n = (expr.var(name) for name in ("i", "r", "c", "n"))
    zero, one = expr.const(0, "i64"), expr.const(1, "i64")
    base = i * n + c
    turn = expr.load(1, base, code)
    body: list = [Local("turn", turn), Store(3, base, expr.complex_(expr.load(0, base, code), turn))]
    if with_vectors:
        turn, none = expr.var("turn", code), expr.const(0, code)
        is_first, is_second = expr.gt(turn, none), expr.lt(turn, none)
        before, after = expr.select(is_second, c - one, c), expr.select(is_first, c + one, c)
        re = expr.load(2, i * expr.var("batch") + before * expr.var("lead") + r, code)
        im = expr.load(2, i * expr.var("batch") + after * expr.var("lead") + r, code)
        im = expr.select(is_first, im, expr.select(is_second, expr.neg(im), none))
        body.append(For("r", zero, n, (Store(4, i * n * n + c * n + r, expr.complex_(re, im)),)))
    whole = {"f32": "c64", "f64": "c128"}[code]
    return Nest(
        "eigen_pairs",
        operands([code, code, code], [whole, whole]),
        ("n", "batch", "lead"),
        rows(For("c", zero, n, tuple(body))),
    )


def eig_gradient(gL: Any, gV: Any, L: Any, V: Any) -> Any:
    """Gradient of A = V diag(L) V^-1 with columns of V of length 1."""
    solve = find_op("linalg_solve")
    if gV is None:
        return solve(V.mH, gL.unsqueeze(-1) * V.mH)
    inner = V.mH @ gV
    lengths = inner.diagonal(0, -2, -1)
    check_gauge("linalg.eig: the eigenvectors", lengths)
    inner = inner - (V.mH @ V) * find_op("real")(lengths).to(V.dtype).unsqueeze(-2)
    apart = (L.unsqueeze(-2) - L.unsqueeze(-1)).conj()
    apart = apart + find_op("eye")(L.shape[-1], dtype=L.dtype, device=L.device)
    middle = inner / apart
    diagonal = (gL if gL is not None else L.new_zeros(L.shape)).diag_embed(0, -2, -1)
    middle = middle.tril(-1) + middle.triu(1) + diagonal
    return solve(V.mH, middle @ V.mH)


def check_finite(name: str, A: Any) -> None:
    """LAPACK's general eigenvalue routines may not return from infinities and NaN."""
    if readable(A) and not A.detach().isfinite().all().item():
        raise RuntimeError(f"{name}: expected finite numbers, got infs or NaNs.")


class LinalgEig(Composite):
    """Eigenvalues and eigenvectors of square matrices, always complex."""

    schema = "linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)"
    namespace = "linalg"
    method = False

    def compute(self, A):
        check_square("linalg.eig", A)
        check_float("linalg.eig", A)
        check_finite("linalg.eig", A)
        return result_type("linalg_eig", self.spec.return_names)(find_op("_linalg_eig")(A, True))


class Eigvals(Composite):
    """Eigenvalues of square matrices, always complex."""

    schema = "linalg_eigvals(Tensor A) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, A):
        check_square("linalg.eigvals", A)
        check_float("linalg.eigvals", A)
        check_finite("linalg.eigvals", A)
        return find_op("_linalg_eig")(A, A.requires_grad)[0]
