"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..op import find_op
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]

_where = find_op("where")


class StudentT(Distribution):
    """A normal number over the root of an independent chi-squared one: heavier tails the smaller `df`."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched = ("df", "loc", "scale", "_chi2")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        spread = self.scale.pow(2) * self.df / (_where(finite, self.df, 3.0) - 2)
        return _where(finite, spread, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (noise * (self._chi2.rsample(sample_shape) / self.df).rsqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        y, half = (value - self.loc) / self.scale, 0.5 * (self.df + 1.0)
        norm = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma() - half.lgamma()
        )
        return -half * (y**2.0 / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        low, high = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = low.lgamma() + math.lgamma(0.5) - high.lgamma()
        return self.scale.log() + high * (high.digamma() - low.digamma()) + 0.5 * self.df.log() + log_beta
