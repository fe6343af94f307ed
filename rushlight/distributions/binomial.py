"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..op import find_op
from . import constraints
from .distribution import Distribution
from .odds import Odds, check_one
from .utils import broadcast_all

__all__ = ["Binomial"]

_arange, _binomial = find_op("arange"), find_op("binomial")


def _clamp_by_zero(x: Tensor) -> Tensor:
    """max(x, 0) with the gradient 1/2 at zero."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(Odds, Distribution):
    """Successes in `total_count` trials of probability `probs`."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _batched = ("total_count", "probs", "logits", "_param")

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one(probs, logits)
        count, param = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.type_as(param)
        self._hold(None if probs is None else param, param)
        super().__init__(param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # n log(1 + exp(logits)), written so that large logits do not overflow
        return ways + value * logits - n * (_clamp_by_zero(logits) + (-logits.abs()).exp().log1p())

    def _one_count(self, asked: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._one_count("enumerate_support")
        return self._enumerated(_arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)
