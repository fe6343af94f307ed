"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .._C import Tensor
from ..base.dtype import finfo
from ..base.shape import Size
from ..op import find_op
from ..tensors.interop import tensor
from ..tensors.plain_functions import broadcast_shapes
from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import _factor, _half_log_det, _only_matrix
from .utils import _Number, lazy_property

__all__ = ["Wishart"]

_LOG_2 = math.log(2)
_arange, _eye, _randn, _slogdet = find_op("arange"), find_op("eye"), find_op("randn"), find_op("linalg_slogdet")
_cholesky_solve, _mvlgamma, _tril_indices = find_op("cholesky_solve"), find_op("mvlgamma"), find_op("tril_indices")


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the multivariate log gamma function."""
    if not (x > (p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    return (x.unsqueeze(-1) - _arange(p, dtype=x.dtype, device=x.device) / 2).digamma().sum(-1)


class Wishart(ExponentialFamily):
    """The scatter matrix of `df` normal vectors, given their covariance, its inverse or its Cholesky factor."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = ("df", "covariance_matrix", "precision_matrix", "scale_tril", "_dist_chi2")
    _carried = ("_unbroadcasted_scale_tril",)

    def __init__(
        self, df: Any, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:
        name, matrix = _only_matrix(covariance_matrix, precision_matrix, scale_tril, AssertionError)
        if matrix.dim() < 2:
            raise ValueError("scale_tril: expected at least 2 dimensions (batch dimensions come first)")
        p = matrix.shape[-1]
        if isinstance(df, _Number):
            batch_shape = matrix.shape[:-2]
            self.df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        if (self.df <= p - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        if (self.df < p).any():
            warnings.warn("Wishart: df lies between ndim - 1 and ndim, where samples are often singular.", stacklevel=2)
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor(name, matrix)
        counts = _arange(p, dtype=matrix.dtype, device=matrix.device).expand(batch_shape + (-1,))
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - counts)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._spread(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return self._spread(_cholesky_solve(_eye(factor.shape[-1], dtype=factor.dtype, device=factor.device), factor))

    def _per_matrix(self, number: Tensor) -> Tensor:
        """One number per batch, to multiply matrices with."""
        return number.expand(self._batch_shape)[..., None, None]

    @property
    def mean(self) -> Tensor:
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.event_shape[-1] - 1
        return self._per_matrix(factor.masked_fill(factor <= 0, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self._per_matrix(self.df) * (V.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Size) -> Tensor:
        """L A A^T L^T, with roots of chi-squared numbers on A's diagonal and normal ones below it."""
        p = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = roots.clamp(min=finfo(roots.dtype).eps).diag_embed()
        row, column = _tril_indices(p, p, offset=-1)
        below = _randn(sample_shape + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype, device=noise.device)
        noise[..., row, column] = below
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _singular(self, sample: Tensor) -> Tensor:
        """Which samples hold a matrix that is not positive definite; batches are taken together."""
        singular = ~self.support.check(sample)
        return singular.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else singular

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        sample_shape = Size(sample_shape)
        # PyTorch's first draw is always thrown away (its check for singular matrices is inverted there), so that the
        # numbers of a seed are those of the second.
        self._bartlett_sampling(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        singular = self._singular(sample)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not singular.any():
                break
            warnings.warn("Singular sample detected.", stacklevel=2)
            sample[singular] = self._bartlett_sampling(singular[singular].shape)
            singular = self._singular(sample)
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        norm = nu * (p * _LOG_2 / 2 + _half_log_det(factor)) + _mvlgamma(nu / 2, p=p)
        trace = _cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - p - 1) / 2 * _slogdet(value)[1] - trace / 2 - norm

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        size = (p + 1) * (p * _LOG_2 / 2 + _half_log_det(self._unbroadcasted_scale_tril))
        return size + _mvlgamma(nu / 2, p=p) - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p) + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-_slogdet(-2 * x)[1] + _LOG_2 * p) + _mvlgamma(half, p=p)
