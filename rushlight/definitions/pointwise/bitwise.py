"""Bitwise connectives and shifts.

Enters: integer and boolean tensors, Python integers. Leaves: the common dtype.
Refuses: floating and complex dtypes; shifting booleans.
"""

from __future__ import annotations

from rushlight.op import Pointwise


class BitwiseAnd(Pointwise):
    """Bits set in both; logical for booleans."""

    schema = "bitwise_and(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    dunder = ("__and__", "__rand__", "__iand__")
    refuse = ("float", "complex")

    def expr(self, s, x, y):
        return x & y


class BitwiseOr(Pointwise):
    """Bits set in either; logical for booleans."""

    schema = "bitwise_or(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    dunder = ("__or__", "__ror__", "__ior__")
    refuse = ("float", "complex")

    def expr(self, s, x, y):
        return x | y


class BitwiseXor(Pointwise):
    """Bits set in exactly one; logical for booleans."""

    schema = "bitwise_xor(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    dunder = ("__xor__", "__rxor__", "__ixor__")
    refuse = ("float", "complex")

    def expr(self, s, x, y):
        return x ^ y


class NoBitsError(TypeError, NotImplementedError):
    """PyTorch raises TypeError for `~x` and NotImplementedError for `bitwise_not(x)`: one op here, so this is both."""


class BitwiseNot(Pointwise):
    """Every bit flipped; logical for booleans."""

    schema = "bitwise_not(Tensor input) -> Tensor"
    dunder = ("__invert__",)

    def check(self, input):
        if input.dtype.is_floating_point or input.dtype.is_complex:
            raise NoBitsError(
                f"bitwise_not: `~` flips the bits of integers and booleans, got {input.dtype.name}. Use logical_not()"
                " or a comparison."
            )

    def expr(self, s, x):
        return ~x


class BitwiseLeftShift(Pointwise):
    """input * 2 ** other; 0 when the count is negative or reaches the width."""

    schema = "bitwise_left_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    dunder = ("__lshift__", "__rlshift__", "__ilshift__")
    refuse = ("bool", "float", "complex")

    def expr(self, s, x, count):
        return s.bitwise_left_shift(x, count)


class BitwiseRightShift(Pointwise):
    """input / 2 ** other rounded down; all sign bits when the count is negative or reaches the width."""

    schema = "bitwise_right_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    dunder = ("__rshift__", "__rrshift__", "__irshift__")
    refuse = ("bool", "float", "complex")

    def expr(self, s, x, count):
        return s.bitwise_right_shift(x, count)
