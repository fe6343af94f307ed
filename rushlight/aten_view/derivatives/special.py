"""Derivatives of special functions, and of ops on elements that few programs use.

Enters: nothing. Leaves: `SPECIAL`, functions by op and parameter, in PyTorch's steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...op import find_op
from ..words import aten
from .pointwise import less, plus, power, times, zero_like


def _mostly(sign: str, mine: bool) -> Callable:
    """fmax and fmin: the other one where this is not a number."""

    def rule(g: Any, self: Any, other: Any) -> Any:
        chosen = find_op("logical_or_")(getattr(aten, sign).Tensor(self, other), other.isnan())
        if mine:
            return aten.masked_fill.Scalar(g, find_op("logical_not_")(chosen), 0)
        return aten.masked_fill.Scalar(g, chosen, 0)

    return rule


def _copysign(g: Any, self: Any, result: Any) -> Any:
    ratio = result / self
    ratio = aten.masked_fill_.Scalar(ratio, aten.eq.Scalar(self, 0), 0)
    return g * ratio


def _sinc(g: Any, self: Any) -> Any:
    angle = times(self, math.pi)
    square = times(self * self, math.pi)
    slope = g * ((angle * angle.cos() - angle.sin()) / square)
    zero = zero_like(g)
    return aten.where.self(aten.eq.Scalar(square, 0.0), zero, slope)


def _xlogy_self(g: Any, self: Any, other: Any) -> Any:
    if not isinstance(other, Tensor):
        return None
    gone = find_op("bitwise_and")(aten.eq.Scalar(self, 0.0), aten.le.Scalar(other, 0.0))
    return aten.masked_fill.Scalar(find_op("xlogy")(g, other), gone, 0.0)


def _xlog1py_self(g: Any, self: Any, other: Any) -> Any:
    if not isinstance(other, Tensor):
        return None
    gone = find_op("bitwise_and")(aten.eq.Scalar(self, 0.0), aten.le.Scalar(other, -1.0))
    return aten.masked_fill.Scalar(aten.special_xlog1py(g, other), gone, 0.0)


def _nan_to_num(g: Any, self: Any) -> Any:
    finite = find_op("isfinite")(self)
    return g * finite


def _deg(factor: float) -> Callable:
    return lambda g: times(g, factor)


SPECIAL: dict[str, dict[str, Callable]] = {
    "fmax": {"self": _mostly("ge", True), "other": _mostly("ge", False)},
    "fmin": {"self": _mostly("le", True), "other": _mostly("le", False)},
    "copysign": {"self": _copysign},
    "deg2rad": {"self": _deg(math.pi / 180)}, "rad2deg": {"self": _deg(180 / math.pi)},
    "polygamma": {"self": lambda g, n, self: g * aten.polygamma(n + 1, self)},
    "sinc": {"self": _sinc},
    "xlogy": {"self": _xlogy_self, "other": lambda g, self, other: g * self / other},
    "special_xlog1py": {"self": _xlog1py_self, "other": lambda g, self, other: _xlog1py_other(g, self, other)},
    "nan_to_num": {"self": _nan_to_num},
    "special_entr": {"self": lambda g, self: g * plus(self.log(), 1).neg()},
    "special_ndtri": {"self": lambda g, result: g * times(aten.div.Scalar(power(result, 2), 2).exp(),
                                                         math.sqrt(2 * math.pi))},
    "special_erfcx": {"self": lambda g, self, result: less(times(result * self, 2), 2 / math.sqrt(math.pi)) * g},
    "special_log_ndtr": {"self": lambda g, self, result: _log_ndtr(g, self, result)},
    "i0": {"self": lambda g, self: g * aten.special_i1(self)},
    "special_i0e": {"self": lambda g, self, result: _i0e(g, self, result)},
    "erfinv": {"self": lambda g, self: times(power(self.erfinv(), 2).exp(), 0.5 * math.sqrt(math.pi)) * g},
    "sgn": {"self": lambda g: find_op("zeros_like")(g)},
    "mvlgamma": {"self": lambda g, self, p: _mvlgamma(g, self, p)},
}


def _xlog1py_other(g: Any, self: Any, other: Any) -> Any:
    below = plus(other, 1)
    return g * self / below


def _log_ndtr(g: Any, self: Any, result: Any) -> Any:
    return g / times((aten.div.Scalar(power(self, 2), 2) + result).exp(), math.sqrt(2 * math.pi))


def _i0e(g: Any, self: Any, result: Any) -> Any:
    kept = self.sgn() * result
    return g * (aten.special_i1e(self) - kept)


def _mvlgamma(g: Any, self: Any, p: int) -> Any:
    steps = aten.arange.start_step(-p / 2.0 + 0.5, 0.5, 0.5, dtype=self.dtype, layout=self.layout, device=self.device)
    return g * aten.sum.dim_IntList(find_op("digamma_")(self.unsqueeze(-1) + steps), [-1])
