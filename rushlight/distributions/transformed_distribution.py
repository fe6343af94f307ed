"""Distributions of transformed draws."""

from __future__ import annotations

from typing import Any, Self

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..base.shape import Size
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Draws of `base_distribution` sent through `transforms` in turn;
    scored by going back and counting the volume change.

    The batch dims of the base become event dims as far as the transforms take dims together.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    _batched: tuple[str, ...] = ()

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(f"transforms must be a Transform or a list of them, got {transforms}")
        if not all(isinstance(part, Transform) for part in self.transforms):
            raise ValueError("transforms must be a Transform or a list of them alone")

        whole = ComposeTransform(self.transforms)
        taken, given = whole.domain.event_dim, whole.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims = len(base_distribution.event_shape)
        if len(base_shape) < taken:
            raise ValueError(f"base_distribution: expected at least {taken} dimensions, got shape {base_shape}.")
        shape = Size(whole.forward_shape(base_shape))
        needed = Size(whole.inverse_shape(shape))
        if base_shape != needed:  # the transforms' parameters broadcast the base
            base_distribution = base_distribution.expand(needed[: len(needed) - base_dims])
        if taken > base_dims:
            base_distribution = Independent(base_distribution, taken - base_dims)
        self.base_dist = base_distribution

        cut = len(shape) - max(given, base_dims + given - taken)
        if cut < 0:
            raise AssertionError(f"forward_shape length {len(shape)} must be >= event_dim {len(shape) - cut}")
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        shape = Size(batch_shape) + self.event_shape
        for part in reversed(self.transforms):
            shape = Size(part.inverse_shape(shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def _forward(self, x: Tensor) -> Tensor:
        for part in self.transforms:
            x = part(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        event_dim = len(self.event_shape)
        change: Any = 0.0
        for part in reversed(self.transforms):
            origin = part.inv(value)
            event_dim += part.domain.event_dim - part.codomain.event_dim
            change = change - _sum_rightmost(
                part.log_abs_det_jacobian(origin, value), event_dim - part.domain.event_dim
            )
            value = origin
        return change + _sum_rightmost(self.base_dist.log_prob(value), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Probabilities turned around where the transforms decrease."""
        sign: Any = 1
        for part in self.transforms:
            sign = sign * part.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for part in reversed(self.transforms):
            value = part.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
