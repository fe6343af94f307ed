"""Norms of matrices, the norm that chooses between vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight.base.promotion import can_cast
from rushlight.op import Composite, find_op, wrap_dim

from .arguments import check_float, check_matrix, check_square, real_dtype


def check_dtype(name: str, A: Any, dtype: Any) -> None:
    """A floating or complex input, and a dtype that can stand for it."""
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise RuntimeError(f"{name}: expected a floating point or complex dtype, got {A.dtype.name}")
    if dtype is None:
        return
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: expected dtype to be floating point or complex, got {dtype.name}")
    if dtype.is_complex != A.dtype.is_complex:
        raise RuntimeError(
            f"{name}: dtype should be {'complex' if A.dtype.is_complex else 'real'} for"
            f" {'complex' if A.dtype.is_complex else 'real'} inputs, but got {dtype.name}"
        )
    if not can_cast(A.dtype, dtype) or dtype.itemsize < A.dtype.itemsize:
        raise RuntimeError(f"{name}: dtype={dtype.name} would narrow the input's dtype, {A.dtype.name}")


class MatrixNorm(Composite):
    """Norms of matrices: fro, nuc, and the orders 1, 2 and infinity with either sign."""

    schema = (
        "linalg_matrix_norm(Tensor A, any ord='fro', int[] dim=(-2,-1), bool keepdim=False, *, dtype? dtype=None) ->"
        " Tensor"
    )
    namespace = "linalg"
    method = False

    def compute(self, A, ord, dim, keepdim, dtype):
        name = "linalg.matrix_norm"
        check_matrix(name, A)
        check_dtype(name, A, dtype)
        if len(dim) != 2:
            raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
        rows, cols = (wrap_dim(name, d, A.ndim) for d in dim)
        if rows == cols:
            raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
        if ord not in ("fro", "nuc") and (isinstance(ord, str) or abs(ord) not in (1, 2, math.inf)):
            raise RuntimeError(f"{name}: Order {ord} not supported.")
        if ord == "fro":
            return find_op("linalg_vector_norm")(A, 2, (rows, cols), keepdim, dtype=dtype)
        if dtype is not None:
            A = A.to(dtype)
        if ord in ("nuc", 2, -2):
            if not isinstance(ord, str):
                check_float(name, A)
            return self.from_singular(A.movedim((rows, cols), (-2, -1)), ord, (rows, cols), keepdim)
        if abs(ord) == math.inf:
            rows, cols = cols, rows
        sums = find_op("linalg_vector_norm")(A, 1, (rows,), keepdim)
        if not keepdim and cols > rows:
            cols -= 1
        return extreme(sums, cols, keepdim, ord > 0)

    def from_singular(self, A: Any, ord: Any, dims: tuple[int, int], keepdim: bool) -> Any:
        """Sum, largest or smallest of the singular values."""
        S = find_op("linalg_svdvals")(A)
        result = S.sum(-1) if ord == "nuc" else extreme(S, -1, False, ord > 0)
        for d in sorted(dims) if keepdim else ():
            result = result.unsqueeze(d)
        return result


def extreme(values: Any, dim: int, keepdim: bool, largest: bool) -> Any:
    """The largest value, 0 where there are none, or the smallest."""
    if not largest:
        return values.amin(dim, keepdim)
    return values.amax(dim, keepdim) if values.shape[dim] else values.sum(dim, keepdim)


class LinalgNorm(Composite):
    """A vector norm of all elements or along one dim, or a matrix norm over two."""

    schema = "linalg_norm(Tensor A, any ord=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor"
    views = "keep"
    namespace = "linalg"
    method = False

    def compute(self, A, ord, dim, keepdim, dtype):
        if dim is not None and len(dim) not in (1, 2):
            raise RuntimeError(f"linalg.norm: expected one dim or two, got dim={list(dim)}")
        if dim is None and ord is not None and A.ndim not in (1, 2):
            raise RuntimeError(f"linalg.norm: ord without dim needs an input with 1 or 2 dimensions, got {A.ndim}.")
        if isinstance(ord, str):
            return find_op("linalg_matrix_norm")(
                A, ord, dim if dim is not None else tuple(range(A.ndim)), keepdim, dtype=dtype
            )
        if ord is not None and ((dim is not None and len(dim) == 2) or (dim is None and A.ndim == 2)):
            return find_op("linalg_matrix_norm")(A, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
        return find_op("linalg_vector_norm")(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


class Cond(Composite):
    """Condition numbers: the norm times the norm of the inverse; infinite for singular matrices."""

    schema = "linalg_cond(Tensor A, any p=None) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, A, p):
        name = "linalg.cond"
        check_matrix(name, A)
        check_float(name, A)
        if p is not None and p not in ("fro", "nuc") and (isinstance(p, str) or abs(p) not in (1, 2, math.inf)):
            raise RuntimeError(f"linalg.cond: invalid norm: {p}")
        if not A.numel():
            return A.new_zeros(tuple(A.shape[:-2]), dtype=real_dtype(A.dtype))
        if p is None or p in (2, -2):
            S = find_op("linalg_svdvals")(A)
            largest, smallest = S.select(-1, 0), S.select(-1, -1)
            return smallest / largest if p == -2 else largest / smallest
        check_square(f"{name}(ord={p})", A)
        if p == "nuc":   # the inverse's singular values are at hand
            S = find_op("linalg_svdvals")(A)
            return S.sum(-1) * (1 / S).sum(-1)
        norm = find_op("linalg_matrix_norm")
        inverse, info = find_op("linalg_inv_ex")(A)
        if not A.is_meta:
            inverse = inverse.masked_fill((info != 0).unsqueeze(-1).unsqueeze(-1), math.inf)
        return norm(A, p) * norm(inverse, p)


# --- older names ------------------------------------------------------------------------------------------------------


class NuclearNorm(Composite):
    """The sum of singular values."""

    schema = (
        "nuclear_norm(Tensor input, bool keepdim=False) -> Tensor",
        "nuclear_norm(Tensor input, int[] dim, bool keepdim=False) -> Tensor",
    )
    method = False

    def compute(self, input, *rest):
        dim, keepdim = rest if len(rest) == 2 else ((-2, -1), *rest)
        return find_op("linalg_matrix_norm")(input, "nuc", dim, keepdim)


class FrobeniusNorm(Composite):
    """The root of the sum of squares over one or two dims, or over all."""

    schema = "frobenius_norm(Tensor input, int[] dim, bool keepdim=False) -> Tensor"
    method = False

    def compute(self, input, dim, keepdim):
        if len(dim) > 2:
            raise RuntimeError(f"frobenius_norm: Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
        return find_op("linalg_vector_norm")(input, 2, dim or None, keepdim)


class NormExceptDim(Composite):
    """The norm over every dim but one; over all of them for dim=-1."""

    schema = "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor"
    method = False
    out = False

    def compute(self, v, pow, dim):
        if dim == -1:
            return find_op("linalg_vector_norm")(v, pow)
        kept = wrap_dim("norm_except_dim", dim, v.ndim)
        others = [d for d in range(v.ndim) if d != kept]
        return find_op("linalg_vector_norm")(v, pow, others, True) if others else v.abs()


class WeightNorm(Composite):
    """`v` with the lengths `g`, one for each index of a dim; for dim=-1 one of the whole."""

    schema = "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor"
    method = False
    out = False

    def compute(self, v, g, dim):
        if v.dtype.is_floating_point and v.dtype.itemsize < 4:   # whose norms may be numbers of single precision only
            return self.compute(v.to(_C.float32), g.to(_C.float32), dim).to(v.dtype)
        return v * (g / find_op("norm_except_dim")(v, 2, dim))


class WeightNormInterface(Composite):
    """`_weight_norm` of the first or the last dim, and the norms it divided by."""

    schema = "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)"
    method = False
    out = False

    def compute(self, v, g, dim):
        if dim not in (0, v.ndim - 1):
            raise RuntimeError(f"_weight_norm_interface: dim must be 0 or the last one, {v.ndim - 1}, got {dim}")
        norms = find_op("norm_except_dim")(v, 2, dim)
        return v * (g / norms), norms
