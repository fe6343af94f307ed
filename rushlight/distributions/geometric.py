"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..base.dtype import finfo
from ..op import find_op
from . import constraints
from .distribution import Distribution
from .odds import Odds, check_one
from .utils import broadcast_all

__all__ = ["Geometric"]

_empty, _zeros_like, _cross_entropy = (
    find_op("empty"),
    find_op("zeros_like"),
    find_op("binary_cross_entropy_with_logits"),
)


class Geometric(Odds, Distribution):
    """Failures before the first success, which each trial brings with probability `probs`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _batched = ("probs", "logits", "_param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        check_one(probs, logits)
        self._hold(*(None if given is None else broadcast_all(given)[0] for given in (probs, logits)))
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not (value > 0).all():
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution"
                    f" {self!r} to be positive but found invalid values:\n{value.detach()[~(value > 0)]}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return _zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = _empty(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            u.uniform_(finfo(u.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)  # where 0 * log(0) is to be 0
        return value * (-probs.masked_fill(certain, 0)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs, reduction="none") / self.probs
