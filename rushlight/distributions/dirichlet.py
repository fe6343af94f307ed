"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..op import find_op
from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]

_sample_dirichlet, _one_hot = find_op("_sample_dirichlet"), find_op("one_hot")


class Dirichlet(ExponentialFamily):
    """Shares of a whole, the more even the larger the concentrations (along the last dim)."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _batched = ("concentration",)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("concentration: expected at least one dimension, got a number.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        corner = (self.concentration < 1).all(-1)  # all mass is at the corners: PyTorch names one
        mode[corner] = _one_hot(mode[corner].argmax(-1), excess.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        return (
            a.lgamma().sum(-1)
            - total.lgamma()
            - (a.shape[-1] - total) * total.digamma()
            - ((a - 1.0) * a.digamma()).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
