"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..op import find_op
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]

_rand, _where, _isclose, _zeros_like = find_op("rand"), find_op("where"), find_op("isclose"), find_op("zeros_like")


class GeneralizedPareto(Distribution):
    """Excesses over a threshold `loc`: heavy-tailed, exponential or bounded as `concentration` is above,
    at or below zero."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _batched = ("loc", "scale", "concentration")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        end = _where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    def _is_exponential(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is nearly zero, and concentrations safe to divide by."""
        zero = _isclose(self.concentration, _zeros_like(self.concentration))
        return zero, _where(zero, 1.0, self.concentration)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(_rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        z, (zero, concentration) = self._z(value), self._is_exponential()
        factor = 1 / concentration + 1
        # A factor of zero (the uniform case) must win over the infinite logarithm at the end of the support.
        general = _where(factor == 0, factor, factor * (concentration * z).log1p())
        return -self.scale.log() - _where(zero, z, general)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log(1 - cdf)."""
        self._check_value(value)
        z, (zero, concentration) = self._z(value), self._is_exponential()
        return _where(zero, -z, -(concentration * z).log1p() / concentration)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the cdf."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        zero, concentration = self._is_exponential()
        log_tail = (-value).log1p()
        general = self.loc + self.scale / concentration * (-concentration * log_tail).expm1()
        return _where(zero, self.loc - self.scale * log_tail, general)

    @property
    def mean(self) -> Tensor:
        exists = self.concentration < 1
        return _where(exists, self.loc + self.scale / (1 - _where(exists, self.concentration, 0.5)), math.nan)

    @property
    def variance(self) -> Tensor:
        exists = self.concentration < 0.5
        safe = _where(exists, self.concentration, 0.25)
        return _where(exists, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)
