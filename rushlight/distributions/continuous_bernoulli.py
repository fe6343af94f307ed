"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..op import find_op
from . import constraints
from .exp_family import ExponentialFamily
from .odds import Odds, check_one
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]

_rand, _where, _cross_entropy = find_op("rand"), find_op("where"), find_op("binary_cross_entropy_with_logits")


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Numbers in [0, 1] of density proportional to probs**x (1 - probs)**(1 - x).

    The formulas divide by 1 - 2 probs; between `lims` (around a half) their Taylor series are used instead.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = ("probs", "logits", "_param")
    _carried = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        check_one(probs, logits)
        if probs is not None:
            (probs,) = broadcast_all(probs)
            # Once clamped, wrong values could not be told any more.
            if validate_args is not None and not self.arg_constraints["probs"].check(probs).all():
                raise ValueError("The parameter probs has invalid values")
            self._hold(clamp_probs(probs), None)
        else:
            self._hold(None, *broadcast_all(logits))
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The probabilities, those too near a half moved to the edge so that nothing is divided by zero."""
        return _where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _either(self, formula: Tensor, taylor: Tensor) -> Tensor:
        return _where(self._outside_unstable_region(), formula, taylor)

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of what normalises the density."""
        cut = self._cut_probs()
        low = cut <= 0.5
        # Each branch sees harmless values where the other is taken, for the sake of gradients.
        width = _where(low, (-2.0 * _where(low, cut, 0.0)).log1p(), (2.0 * _where(low, 1.0, cut) - 1.0).log())
        x = (self.probs - 0.5).pow(2)
        return self._either(
            ((-cut).log1p() - cut.log()).abs().log() - width, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x
        )

    @property
    def mean(self) -> Tensor:
        cut, x = self._cut_probs(), self.probs - 0.5
        return self._either(
            cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log()), 0.5 + (1 / 3 + 16 / 45 * x.pow(2)) * x
        )

    @property
    def variance(self) -> Tensor:
        cut, x = self._cut_probs(), (self.probs - 0.5).pow(2)
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / ((-cut).log1p() - cut.log()).pow(2)
        return self._either(exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def _uniform(self, sample_shape: Any) -> Tensor:
        return _rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self.icdf(self._uniform(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(self._uniform(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        logits, value = broadcast_all(self.logits, value)
        return -_cross_entropy(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._check_value(value)
        cut = self._cut_probs()
        inside = self._either((cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0), value)
        return _where(value <= 0.0, 0.0, _where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        tail = (-cut).log1p()
        return self._either(((-cut + value * (2.0 * cut - 1.0)).log1p() - tail) / (cut.log() - tail), value)

    def entropy(self) -> Tensor:
        log_not = (-self.probs).log1p()
        return self.mean * (log_not - self.probs.log()) - self._cont_bern_log_norm() - log_not

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = (limit - 0.5 for limit in self._lims)
        outside = (x <= low) | (x > high)
        cut = _where(outside, x, low)
        return _where(outside, cut.expm1().abs().log() - cut.abs().log(), 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
