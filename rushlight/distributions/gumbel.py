"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..base.dtype import finfo
from ..op import find_op
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]

_full_like, _ones_like = find_op("full_like"), find_op("ones_like")


class Gumbel(TransformedDistribution):
    """The limit of maxima of many draws: loc - scale * log(-log(u)) for uniform u."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _batched = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        base = Uniform(
            _full_like(self.loc, limits.tiny), _full_like(self.loc, 1 - limits.eps), validate_args=validate_args
        )
        log = ExpTransform().inv
        negate = AffineTransform(loc=0, scale=-_ones_like(self.scale))
        super().__init__(
            base, [log, negate, log, AffineTransform(loc=loc, scale=-self.scale)], validate_args=validate_args
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
