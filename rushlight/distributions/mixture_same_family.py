"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from . import constraints
from .categorical import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A draw of the component that `mixture_distribution` picks; components lie along the last batch dim of theirs."""

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample = False
    _batched = ("_mixture_distribution", "_component_distribution")
    _carried = ("_num_component", "_event_ndims")

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("mixture_distribution: expected a Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("component_distribution: expected a Distribution")
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for ours, theirs in zip(reversed(mixed), reversed(batch)):
            if ours != theirs and ours != 1 and theirs != 1:
                raise ValueError(f"the batch_shape of mixture_distribution, {mixed}, does not fit "
                                 f"that of component_distribution, {batch}")
        picks, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if picks != components:
            raise ValueError(
                f"mixture_distribution chooses between {picks} components, component_distribution has {components}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = picks
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _average(self, values: Tensor) -> Tensor:
        """The components' values weighted by their probabilities."""
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._average(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        within = self._average(self.component_distribution.variance)
        between = self._average((self.component_distribution.mean - self._pad(self.mean)).pow(2.0))
        return within + between

    def cdf(self, x: Tensor) -> Tensor:
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._check_value(x)
        scores = self.component_distribution.log_prob(self._pad(x))
        return (scores + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            picked = self.mixture_distribution.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            index = picked.reshape(picked.shape + (1,) * (self._event_ndims + 1))
            index = index.repeat((1,) * (picked.ndim + 1) + tuple(self.event_shape))
            return values.gather(dim, index).squeeze(dim)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """Probabilities with dims of one where the components have batch or event dims."""
        own = len(self.mixture_distribution.batch_shape)
        missing = 0 if own == 1 else len(self.batch_shape) - own
        return x.reshape(x.shape[:-1] + (1,) * missing + x.shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
