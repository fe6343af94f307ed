"""Bitwise connectives and shifts.

Enters: integer and boolean tensors, Python integers. Leaves: the common dtype.
Refuses: floating and complex dtypes; shifting booleans.
"""

from __future__ import annotations

from rushlight.loops.expr import BITS, SIGNED
from rushlight.op import Pointwise


class BitwiseAnd(Pointwise):
    """Bits set in both; logical for booleans."""

    schema = "bitwise_and(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    dunder = ("__and__", "__rand__", "__iand__")
    refuse = ("float", "complex")

    def expr(self, s, x, y):
        return x & y


class BitwiseOr(Pointwise):
    """Bits set in either; logical for booleans."""

    schema = "bitwise_or(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    dunder = ("__or__", "__ror__", "__ior__")
    refuse = ("float", "complex")

    def expr(self, s, x, y):
        return x | y


class BitwiseXor(Pointwise):
    """Bits set in exactly one; logical for booleans."""

    schema = "bitwise_xor(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    dunder = ("__xor__", "__rxor__", "__ixor__")
    refuse = ("float", "complex")

    def expr(self, s, x, y):
        return x ^ y


class BitwiseNot(Pointwise):
    """Every bit flipped; logical for booleans."""

    schema = "bitwise_not(Tensor input) -> Tensor"
    dunder = ("__invert__",)
    refuse = ("float", "complex")

    def expr(self, s, x):
        return ~x


def in_range(s, count, bits: int):
    """Whether a shift count lies in [0, bits)."""
    small = count < bits
    return small & (count >= 0) if count.dtype in SIGNED else small


class BitwiseLeftShift(Pointwise):
    """input * 2 ** other; 0 when the count is negative or reaches the width."""

    schema = "bitwise_left_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    dunder = ("__lshift__", "__rlshift__", "__ilshift__")
    refuse = ("bool", "float", "complex")

    def expr(self, s, x, count):
        safe = in_range(s, count, BITS[x.dtype])
        return s.where(safe, x << s.where(safe, count, 0), 0)


class BitwiseRightShift(Pointwise):
    """input / 2 ** other rounded down; all sign bits when the count is negative or reaches the width."""

    schema = "bitwise_right_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    dunder = ("__rshift__", "__rrshift__", "__irshift__")
    refuse = ("bool", "float", "complex")

    def expr(self, s, x, count):
        bits = BITS[x.dtype]
        # Past the last bit only the sign is left: width - 1 of a signed number, nothing of an unsigned one.
        last = x >> (bits - 1) if x.dtype in SIGNED else s.const(0, x.dtype)
        safe = in_range(s, count, bits)
        return s.where(safe, x >> s.where(safe, count, 0), last)
