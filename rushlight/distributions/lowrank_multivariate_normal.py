"""The multivariate normal distribution whose covariance is of low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..op import find_op
from ..tensors.plain_functions import broadcast_tensors
from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv, _half_log_det
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]

_cholesky, _solve, _eye = find_op("linalg_cholesky"), find_op("linalg_solve_triangular"), find_op("eye")


def _plus_identity(square: Tensor) -> Tensor:
    return square + _eye(square.shape[-1], dtype=square.dtype, device=square.device)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W, a matrix of the rank's size, through which all solves go."""
    return _cholesky(_plus_identity((W.mT / D.unsqueeze(-2)) @ W))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """log det(W W^T + D), by the matrix determinant lemma."""
    return 2 * _half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x, by the Woodbury identity."""
    inner = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, inner)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance cov_factor cov_factor^T + diag(cov_diag), never formed unless asked for."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _batched = ("loc", "cov_factor", "cov_diag")
    _carried = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc: expected at least one dimension, got a number.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor: expected at least 2 dimensions (batch dimensions come first)")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor: expected matrices of shape ({event_shape[0]}, m)")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag: expected vectors of shape {event_shape}")
        try:
            wide_loc, self.cov_factor, wide_diag = broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as error:
            shapes = f"loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            raise ValueError(f"Incompatible batch shapes: {shapes}") from error
        self.loc = wide_loc[..., 0]
        self.cov_diag = wide_diag[..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Tensor:
        spread = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return spread.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._spread(root * _cholesky(_plus_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        W = self._unbroadcasted_cov_factor
        return self._spread(W @ W.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        inner = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        half = _solve(self._capacitance_tril, inner, upper=False)
        return self._spread(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - half.mT @ half)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        common = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        own = _standard_normal(shape, **options)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, common) + self._unbroadcasted_cov_diag.sqrt() * own

    def _low_rank(self) -> tuple[Tensor, Tensor]:
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        distance = _batch_lowrank_mahalanobis(*self._low_rank(), value - self.loc, self._capacitance_tril)
        log_det = _batch_lowrank_logdet(*self._low_rank(), self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self) -> Tensor:
        log_det = _batch_lowrank_logdet(*self._low_rank(), self._capacitance_tril)
        return (0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)).expand(self._batch_shape)
