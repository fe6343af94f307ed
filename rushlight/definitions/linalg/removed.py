"""Names that PyTorch removed: each call says what replaces it."""

from __future__ import annotations

from typing import Any

from rushlight.op import Composite


class _Removed(Composite):
    """A function that only tells where it went."""

    out = False
    instead = ""

    def compute(self, *args: Any) -> Any:
        raise RuntimeError(
            f"{self.spec.name}: removed from PyTorch after a deprecation, and not here either. {self.instead}"
        )


class Solve(_Removed):
    """Replaced by linalg.solve, which takes A first."""

    schema = "solve(Tensor input, Tensor A) -> (Tensor solution, Tensor LU)"
    instead = (
        "Use linalg.solve(A, B), which takes its arguments in the other order, and linalg.lu_factor for the factors."
    )


class Symeig(_Removed):
    """Replaced by linalg.eigh and linalg.eigvalsh."""

    schema = (
        "symeig(Tensor input, bool eigenvectors=False, bool upper=True) -> (Tensor eigenvalues, Tensor eigenvectors)"
    )
    instead = "Use linalg.eigh(A, UPLO='U' if upper else 'L'), or linalg.eigvalsh for the eigenvalues alone."


class Eig(_Removed):
    """Replaced by linalg.eig and linalg.eigvals."""

    schema = "eig(Tensor input, bool eigenvectors=False) -> (Tensor eigenvalues, Tensor eigenvectors)"
    instead = "Use linalg.eig(A), or linalg.eigvals for the eigenvalues alone; their results are complex."


class Lstsq(_Removed):
    """Replaced by linalg.lstsq, which takes A first."""

    schema = "lstsq(Tensor input, Tensor A) -> (Tensor solution, Tensor QR)"
    instead = (
        "Use linalg.lstsq(A, B), which takes its arguments in the other order and does not return residuals inside the"
        " solution."
    )


class MatrixRank(_Removed):
    """Replaced by linalg.matrix_rank."""

    schema = "matrix_rank(Tensor input, any tol=None, bool symmetric=False) -> Tensor"
    method = False
    instead = "Use linalg.matrix_rank(A, tol=..., hermitian=...)."
