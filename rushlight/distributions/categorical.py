"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from .._C import Tensor
from ..base.dtype import finfo
from ..base.shape import Size
from ..op import find_op
from ..tensors.plain_functions import broadcast_tensors
from . import constraints
from .distribution import Distribution
from .odds import Odds, check_one

__all__ = ["Categorical"]

_arange, _full, _multinomial = find_op("arange"), find_op("full"), find_op("multinomial")


class Categorical(Odds, Distribution):
    """An index, drawn with the probabilities along the last dim; `logits` are log probabilities up to a constant."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _batched = ("probs", "logits", "_param")
    _carried = ("_num_events",)

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        check_one(probs, logits)
        for name, given in (("probs", probs), ("logits", logits)):
            if given is not None and given.dim() < 1:
                raise ValueError(f"{name}: expected at least one dimension, got a number.")
        if probs is not None:
            self._hold(probs / probs.sum(-1, keepdim=True), None)
        else:
            self._hold(None, logits - logits.logsumexp(-1, keepdim=True))
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    def _undefined(self) -> Tensor:
        return _full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        return self._undefined()

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._undefined()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        return _multinomial(rows, sample_shape.numel(), True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        index, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # Impossible categories count as 0 * (a large number), not 0 * -inf.
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(_arange(self._num_events, dtype=_C.int64, device=self._param.device), expand)
