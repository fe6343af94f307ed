"""Ready-made parametrizations: orthogonal weights, weight norm and spectral norm.

Enters: a module and the name of its weight. Leaves: the module with that weight parametrized. Refuses what
`parametrize.register_parametrization` refuses, dims out of range, and weights that are no matrices.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...base.dtype import finfo
from ...op import find_op
from ...tensors.plain_functions import allclose
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from . import parametrize


class _OrthMaps(Enum):
    """From any matrix to an orthogonal one."""

    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(Q: Tensor) -> bool:
    identity = find_op("eye")(Q.shape[-1], dtype=Q.dtype, device=Q.device)
    return allclose(Q.mH @ Q, identity, atol=10.0 * Q.shape[-2] * finfo(Q.dtype).eps)


def _make_orthogonal(A: Tensor) -> Tensor:
    """The Q of A = QR with a real, non-negative diagonal in R."""
    reflectors, tau = find_op("geqrf")(A)
    Q = find_op("linalg_householder_product")(reflectors, tau)
    return Q * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Matrices with orthonormal columns (rows, if wide), batches allowed.

    With trivialization the map starts from `base`, an orthogonal matrix that remembers the last value assigned, so that
    the parameter itself stays near a point where the map is well behaved.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        # The reflectors of a unitary matrix do not determine their factors tau.
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("orthogonal_map='householder' takes real tensors only.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        is_wide = X.shape[-2] < X.shape[-1]
        if is_wide:
            X = X.mT
        Q = self._reflected(X) if self.orthogonal_map is _OrthMaps.householder else self._rotated(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if is_wide else Q

    def _rotated(self, X: Tensor) -> Tensor:
        """The first columns of the rotation that the lower triangle generates, as a skew-symmetric matrix."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = find_op("cat")([X, X.new_zeros((n, n - k)).expand(*X.shape[:-2], -1, -1)], dim=-1)
        A = X - X.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            Q = find_op("matrix_exp")(A)
        else:
            identity = find_op("eye")(n, dtype=A.dtype, device=A.device)
            Q = find_op("linalg_solve")(identity - 0.5 * A, identity + 0.5 * A)
        return Q if n == k else Q[..., :k]

    @staticmethod
    def _reflected(X: Tensor) -> Tensor:
        """The product of the reflections whose vectors lie below the diagonal; the diagonal holds signs,
        not parameters."""
        A = X.tril(-1)
        tau = 2.0 / (1.0 + (A * A).sum(-2))
        return find_op("linalg_householder_product")(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(f"expected matrices of shape {self.shape}, got {Q.shape}.")
        with no_grad():
            is_wide = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if is_wide else Q
            if hasattr(self, "base"):
                self.base = self._completed(tall)
                start = find_op("zeros_like")(Q)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # what all three maps send to the identity
                return start
            found = self._reflectors(tall)
            return found.mT if is_wide else found

    @staticmethod
    def _completed(Q: Tensor) -> Tensor:
        """A square orthogonal matrix that begins with `Q`, made orthogonal if need be."""
        n, k = Q.shape[-2:]
        if n == k:
            return Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        more = find_op("randn")((*Q.shape[:-2], n, n - k), dtype=Q.dtype, device=Q.device)
        return _make_orthogonal(find_op("cat")([Q, more], dim=-1))

    def _reflectors(self, Q: Tensor) -> Tensor:
        """What `_reflected` sends to `Q`, made orthogonal if need be."""
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError("matrix_exp and cayley cannot be assigned to "
                                      "with use_trivialization=False.")
        A, tau = find_op("geqrf")(Q)
        diagonal = A.diagonal(dim1=-2, dim2=-1)
        signs = diagonal.sgn()
        # LAPACK leaves a reflection out by a factor of exactly zero; the map never does, and takes its sign back.
        diagonal.copy_(find_op("where")(tau == 0.0, -signs, signs))
        return A


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """A weight kept orthogonal (unitary if complex): orthonormal columns, or rows if it is wider than tall.

    The map is "matrix_exp" (default for square or complex weights), "cayley" or "householder" (default for others).
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"expected matrices, got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(f'orthogonal_map: expected "matrix_exp", "cayley" or "householder", got {orthogonal_map}')
    parametrization = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


class _WeightNorm(Module):
    """A direction and its length as separate tensors."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return find_op("_weight_norm")(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return find_op("norm_except_dim")(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Length (`original0`) and direction (`original1`) of a weight learned apart."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def accept_old_keys(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(accept_old_keys)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration follows while training."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"dim out of range: expected [-{weight.ndim}, {weight.ndim - 1}], got {dim}")
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations: expected a number above 0, got {n_power_iterations}")
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = self._matrix(weight)
                for name, size in zip(("_u", "_v"), matrix.shape):
                    self.register_buffer(name, F.normalize(matrix.new_empty((size,)).normal_(0, 1), dim=0, eps=eps))
                self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        mv = find_op("mv")      # which mixed precision leaves alone on the CPU, as it does not leave `@`
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: a second forward may change the buffers before the backward of the first.
        u, v = self._u.clone(), self._v.clone()
        return weight / find_op("vdot")(u, find_op("mv")(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """A weight of spectral norm 1; rows are dim 0, for transposed convolutions dim 1."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
