"""Exponential families: densities exp(t(x) . theta - F(theta) + k(x)).

Enters: natural parameters theta, the log normaliser F and the expectation of k. Leaves: the entropy, from the gradient
of F by automatic differentiation. Refuses: families that do not state these.
"""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd import grad
from ..autograd.grad_mode import enable_grad
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution that states its natural parameters, log normaliser and mean carrier measure."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F - theta . grad F - E[k]: the mean of the sufficient statistic is the gradient of F."""
        theta, normalizer, means = _with_means(self)
        result = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(theta, means, strict=True):
            result = result - (parameter * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result


def _with_means(p: ExponentialFamily) -> tuple[list[Tensor], Tensor, Any]:
    """Natural parameters as leaves, the log normaliser there, and its gradient."""
    theta = [parameter.detach().requires_grad_() for parameter in p._natural_params]
    with enable_grad():
        normalizer = p._log_normalizer(*theta)
        return theta, normalizer, grad(normalizer.sum(), theta, create_graph=True)
