"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..base.shape import Size
from ..op import find_op
from ..tensors.interop import tensor
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Multinomial"]

_ones_like = find_op("ones_like")


class Multinomial(Distribution):
    """How often each category comes up in `total_count` draws; the count is one number for the whole batch."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int
    _batched = ("_categorical", "_binomial")
    _carried = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        draws = self._categorical.sample(Size((self.total_count,)) + sample_shape).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, draws, _ones_like(draws)).type_as(self.probs)

    def entropy(self) -> Tensor:
        n = tensor(self.total_count)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weighted = self._binomial.log_prob(support).exp() * (support + 1).lgamma()
        return n * self._categorical.entropy() - (n + 1).lgamma() + weighted.sum([0, -1])

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        logits, value = broadcast_all(self.logits, value)
        # an impossible category that never came up
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)
