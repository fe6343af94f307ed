"""What vector instructions compute: a numpy function for each, over all lanes at once.

Enters: operands as arrays (or one number for all lanes) of the instruction's type. Leaves: arrays. Special functions of
f32 are computed in f64 and rounded once, as a unit with guard bits does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _where_not_zero(rule: Callable, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A rule of integers where the divisor is not 0, and 0 where it is."""
    zero = np.equal(b, 0)
    return np.where(zero, np.zeros_like(b), rule(a, np.where(zero, np.ones_like(b), b)))


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    down = a // b
    return down + ((down < 0) & (down * b != a)).astype(down.dtype)


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if np.result_type(a) != np.float64:
        return (np.multiply(a, b, dtype=np.float64) + c).astype(np.result_type(a))
    product = a * b
    rest = _product_rest(a, b, product)
    total = product + c
    back = total - product
    rest = rest + ((product - (total - back)) + (c - back))
    return np.where(np.isfinite(rest) & (rest != 0), total + rest, total)


def _product_rest(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """What rounding took from a product of doubles, by halves of their mantissas."""
    (ah, al), (bh, bl) = ((high, x - high) for x, big in ((a, a * 134217729.0), (b, b * 134217729.0))
                          for high in (big - (big - x),))
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


PLAIN: dict[str, Callable] = {
    "vmov": np.positive, "vneg": np.negative, "vabs": np.abs, "vnot": np.invert, "vsqrt": np.sqrt, "vfloor": np.floor,
    "vceil": np.ceil, "vtrunc": np.trunc, "vrint": np.rint, "vadd": np.add, "vsub": np.subtract, "vmul": np.multiply,
    "vdiv": np.true_divide, "vmaxn": np.maximum, "vminn": np.minimum, "vsgn": np.copysign, "vand": np.bitwise_and,
    "vor": np.bitwise_or, "vxor": np.bitwise_xor, "vshl": np.left_shift, "vshr": np.right_shift, "vlt": np.less,
    "vle": np.less_equal, "vgt": np.greater, "vge": np.greater_equal, "veq": np.equal, "vne": np.not_equal,
    "vfmod": np.fmod, "vnext": np.nextafter,
}
"""Those that write into a given array: ufuncs."""

COMPARISONS = frozenset(("vlt", "vle", "vgt", "vge", "veq", "vne"))

MADE: dict[str, Callable] = {
    "vmin": lambda a, b: np.where(a < b, a, b), "vmax": lambda a, b: np.where(a > b, a, b), "vsel": np.where,
    "vquot": lambda a, b: _where_not_zero(_quotient, a, b), "vrem": lambda a, b: _where_not_zero(np.fmod, a, b),
    "vfma": _fma,
}

SPECIAL: dict[str, Callable] = {
    "vexp": np.exp, "vexp2": np.exp2, "vexpm1": np.expm1, "vlog": np.log, "vlog2": np.log2, "vlog10": np.log10,
    "vlog1p": np.log1p, "vsin": np.sin, "vcos": np.cos, "vtan": np.tan, "vasin": np.arcsin, "vacos": np.arccos,
    "vatan": np.arctan, "vsinh": np.sinh, "vcosh": np.cosh, "vtanh": np.tanh, "vasinh": np.arcsinh,
    "vacosh": np.arccosh, "vatanh": np.arctanh, "vrsqrt": lambda x: 1 / np.sqrt(x), "vsigmoid": _sigmoid,
    "vpow": np.power, "vatan2": np.arctan2, "vhypot": np.hypot,
}
