"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..op import find_op
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .odds import Odds, check_one
from .utils import broadcast_all, lazy_property

__all__ = ["NegativeBinomial"]

_poisson, _logsigmoid = find_op("poisson"), find_op("logsigmoid")


class NegativeBinomial(Odds, Distribution):
    """Successes, each of probability `probs`, before the `total_count`-th failure."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _batched = ("total_count", "probs", "logits", "_param")

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one(probs, logits)
        count, param = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.type_as(param)
        self._hold(None if probs is None else param, param)
        super().__init__(param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)  # counts of zero are allowed

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return _poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        n = self.total_count
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        # The case of no trials at all, where lgamma(0) meets itself, has one way.
        ways = ways.masked_fill(n + value == 0.0, 0.0)
        return n * _logsigmoid(-self.logits) + value * _logsigmoid(self.logits) + ways
