"""The multivariate normal distribution, and the triangular algebra its relatives share."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..op import find_op
from ..tensors.plain_functions import broadcast_shapes
from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]

_cholesky, _solve, _eye = find_op("linalg_cholesky"), find_op("linalg_solve_triangular"), find_op("eye")
_cholesky_inverse = find_op("cholesky_inverse")


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors, batches broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x for lower-triangular L and vectors x with at least L's batch.

    The vectors that meet one factor are solved for together, as columns, instead of copying the factor for each.
    """
    n, batch = bx.shape[-1], bx.shape[:-1]
    outer = len(batch) - (bL.ndim - 2)
    # A dim of the vectors' batch is k copies of the factor's: split it as (k, factor), then all k's go to the right.
    split: list[int] = list(batch[:outer])
    for own, theirs in zip(bL.shape[:-2], batch[outer:], strict=True):
        split += [theirs // own, own]
    copies, own_dims = list(range(outer, len(split), 2)), list(range(outer + 1, len(split), 2))
    order = [*own_dims, *range(outer), *copies]
    columns = bx.reshape((*split, n)).permute(*own_dims, len(split), *range(outer), *copies)
    own = columns.shape[: len(own_dims)]
    solved = _solve(bL.reshape(-1, n, n), columns.reshape(own.numel(), n, -1), upper=False)
    distance = solved.pow(2).sum(-2).reshape([split[dim] for dim in order])
    return distance.permute([order.index(dim) for dim in range(len(split))]).reshape(batch)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of `P`: read backwards, that of P is upper-triangular,
    and its inverse lower."""
    flipped = _cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    return _solve(flipped, _eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


def _half_log_det(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    """Normal vectors around `loc`, given their covariance, its inverse (the precision) or its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _batched = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
    _carried = ("_unbroadcasted_scale_tril",)

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc: expected at least one dimension, got a number.")
        name, matrix = _only_matrix(covariance_matrix, precision_matrix, scale_tril, ValueError)
        if matrix.dim() < 2:
            label = name if name != "scale_tril" else "scale_tril matrix"
            raise ValueError(f"{label}: expected at least 2 dimensions (batch dimensions come first)")
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor(name, matrix)

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._spread(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._spread(_cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - _half_log_det(
            self._unbroadcasted_scale_tril
        )

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + _half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


def _only_matrix(covariance: Any, precision: Any, scale_tril: Any, error: type[Exception]) -> tuple[str, Tensor]:
    """The name and value of the one matrix that was given."""
    named = (("covariance_matrix", covariance), ("precision_matrix", precision), ("scale_tril", scale_tril))
    given = [pair for pair in named if pair[1] is not None]
    if len(given) != 1:
        raise error("expected one of covariance_matrix, precision_matrix and scale_tril, and no more.")
    return given[0]


def _factor(name: str, matrix: Tensor) -> Tensor:
    """The covariance's Cholesky factor, from whichever matrix was given."""
    if name == "scale_tril":
        return matrix
    return _cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)
