"""The Laplace distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..base.dtype import finfo
from ..op import find_op
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Laplace"]

_empty = find_op("empty")


class Laplace(Distribution):
    """Exponential to both sides of `loc`, with mean distance `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = _empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u.uniform_(finfo(u.dtype).eps - 1, 1)  # -1 left out: its logarithm would be infinite
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._check_value(value)
        offset = value - self.loc
        return 0.5 - 0.5 * offset.sign() * (-offset.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        side = value - 0.5
        return self.loc - self.scale * side.sign() * (-2 * side.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
