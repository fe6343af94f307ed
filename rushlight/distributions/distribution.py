"""The base of all distributions: shapes, validation, expansion.

Enters: a batch shape and an event shape. Leaves: an object that draws samples of shape sample + batch + event and
scores them. Refuses: parameters and values outside their constraints, with a ValueError, unless validation is off.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..base.shape import Size
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution over events of `event_shape`, one for each place in `batch_shape`.

    A subclass lists in `_batched` the attributes (tensors or distributions) whose leading dims are the batch, and in
    `_carried` what is the same for every batch; `expand` then needs no code of its own.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _carried: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check their arguments when they are not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}.")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = Size(),
        event_shape: Sequence[int] = Size(),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape if isinstance(batch_shape, Size) else Size(batch_shape)
        self._event_shape = event_shape if isinstance(event_shape, Size) else Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} has no `arg_constraints`, so its parameters are not checked. Set them, {{}} for none, or"
                " pass validate_args=False.",
                stacklevel=3,
            )
            return
        for name, constraint in expected.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # derived from another parameter, which is checked
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution"
                    f" {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distribution with its batch expanded, sharing the parameters' memory; nothing is checked again."""
        owner = next((cls for cls in type(self).__mro__ if "_batched" in vars(cls)), None)
        if owner is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement expand")
        new = self._get_checked_instance(owner, _instance)
        batch_shape = Size(batch_shape)
        old = len(self._batch_shape)
        for name in owner._batched:
            value = self.__dict__.get(name)
            if value is not None:
                inner = value.batch_shape if isinstance(value, Distribution) else value.shape
                new.__dict__[name] = value.expand(batch_shape + inner[old:])
        for name in owner._carried:
            new.__dict__[name] = self.__dict__[name]
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> Size:
        """The shape of independent, differently parametrised distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a single draw."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """What each parameter must satisfy, by name."""
        raise NotImplementedError

    @property
    def support(self) -> constraints.Constraint | None:
        """The set draws come from."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of highest probability."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance, element by element."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws of shape sample + batch + event, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` draws. Deprecated in favour of `sample((n,))`."""
        warnings.warn("sample_n is deprecated: use sample((n,)).", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or mass at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw up to `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value with the given probability below it."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Every value of a discrete distribution, along a new first dim; batch dims are ones unless expanded."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expected information of a draw, in nats, one number per batch."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return Size(sample_shape + self._batch_shape + self._event_shape)

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """A vector of values laid along a new first dim before the batch."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _check_value(self, value: Tensor) -> None:
        """Validate a value that is asked about, unless validation is off."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Tensor) -> None:
        """Refuse values that are no tensors, do not broadcast with the distribution, or lie outside its support."""
        if not isinstance(value, Tensor):
            raise ValueError("log_prob: value must be a Tensor")
        shape, expected = value.shape, Size(self._batch_shape + self._event_shape)
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(f"value: its last sizes must be event_shape {self._event_shape}, got {shape}.")
        for have, want in zip(reversed(shape), reversed(expected)):
            if have != want and have != 1 and want != 1:
                raise ValueError(f"value: {shape} is not broadcastable to batch_shape + event_shape {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} has no `support`, so samples are not checked. Pass "
                          "validate_args=False to be without this warning.", stacklevel=3)
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support"
                f" ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An empty instance to expand into; a subclass with an __init__ of its own must bring its own expand."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"{type(self).__name__}, a subclass of {cls.__name__}, has its own __init__, "
                                      "so it needs a custom .expand() too.")
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        held = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in held.items())
        return f"{type(self).__name__}({', '.join(shown)})"
