"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..op import find_op
from . import constraints
from .exp_family import ExponentialFamily
from .odds import Odds, check_one
from .utils import broadcast_all

__all__ = ["Bernoulli"]

_arange, _bernoulli, _cross_entropy = (
    find_op("arange"),
    find_op("bernoulli"),
    find_op("binary_cross_entropy_with_logits"),
)


class Bernoulli(Odds, ExponentialFamily):
    """One with probability `probs`, else zero; `logits` are log odds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _batched = ("probs", "logits", "_param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        check_one(probs, logits)
        self._hold(*(None if given is None else broadcast_all(given)[0] for given in (probs, logits)))
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = math.nan
        return mode

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return _bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        logits, value = broadcast_all(self.logits, value)
        return -_cross_entropy(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(_arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.probs.logit(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp().log1p()
