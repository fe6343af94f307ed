"""The von Mises distribution: the normal distribution's relative on the circle."""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..op import find_op
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]

_empty, _rand, _where, _zeros = find_op("empty"), find_op("rand"), find_op("where"), find_op("zeros")
_i0e, _i1e = find_op("i0e"), find_op("i1e")


def _log_modified_bessel_fn(x: Tensor, order: int = 0) -> Tensor:
    """log I0(x) or log I1(x), for x > 0: the scaled functions do not overflow."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    return (_i1e if order else _i0e)(x).log() + x


def _rejection_sample(loc: Tensor, concentration: Tensor, proposal_r: Tensor, x: Tensor) -> Tensor:
    """Best and Fisher's method: draws of a wrapped Cauchy distribution, accepted until every element has one."""
    done = _zeros(x.shape, dtype=_C.bool, device=loc.device)
    while not done.all():
        u1, u2, u3 = _rand((3, *x.shape), dtype=loc.dtype, device=loc.device).unbind()
        z = (math.pi * u1).cos()
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
        x = _where(accept, (u3 - 0.5).sign() * f.acos(), x)
        done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi


class VonMises(Distribution):
    """Angles around `loc`, the closer the larger `concentration`; draws lie in [-pi, pi)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _batched = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.double()

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.double()

    @lazy_property
    def _proposal_r(self) -> Tensor:
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # Near zero the quotient above loses its digits; there the proposal's parameter is 1 / kappa + kappa.
        return _where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            x = _empty(self._extended_shape(sample_shape), dtype=_C.float64, device=self.loc.device)
            return _rejection_sample(self._loc, self._concentration, self._proposal_r, x).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return (
            self.concentration * (value - self.loc).cos()
            - math.log(2 * math.pi)
            - _log_modified_bessel_fn(self.concentration)
        )

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        return 1 - _i1e(self.concentration) / _i0e(self.concentration)
