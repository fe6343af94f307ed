"""Pointwise comparison and tests: order, equality, closeness, kinds of float, extremes of two.

Enters: tensors and Python numbers. Leaves: booleans, or for the extremes the common dtype.
Refuses: ordering complex numbers.
"""

from __future__ import annotations

from rushlight.definitions.pointwise.checks import check_same_dtype, is_complex
from rushlight.loops.expr import COMPLEX
from rushlight.op import Composite, Pointwise, Promote

FEW = 2048      # elements that are compared in one go


class Eq(Pointwise):
    """Whether the operands are equal."""

    schema = "eq(Tensor input, Tensor|Scalar other) -> Tensor"
    dunder = ("__eq__",)
    promote = Promote.COMPARE
    onnx = "Equal"

    def expr(self, s, x, y):
        return s.eq(x, y)


class Ne(Pointwise):
    """Whether the operands differ."""

    schema = "ne(Tensor input, Tensor|Scalar other) -> Tensor"
    aliases = ("not_equal",)
    dunder = ("__ne__",)
    promote = Promote.COMPARE

    def expr(self, s, x, y):
        return s.ne(x, y)


class Lt(Pointwise):
    """Whether input is less than other."""

    schema = "lt(Tensor input, Tensor|Scalar other) -> Tensor"
    aliases = ("less",)
    dunder = ("__lt__",)
    promote = Promote.COMPARE
    refuse = ("complex",)
    onnx = "Less"

    def expr(self, s, x, y):
        return x < y


class Le(Pointwise):
    """Whether input is less than other or equal."""

    schema = "le(Tensor input, Tensor|Scalar other) -> Tensor"
    aliases = ("less_equal",)
    dunder = ("__le__",)
    promote = Promote.COMPARE
    refuse = ("complex",)
    onnx = "LessOrEqual"

    def expr(self, s, x, y):
        return x <= y


class Gt(Pointwise):
    """Whether input is greater than other."""

    schema = "gt(Tensor input, Tensor|Scalar other) -> Tensor"
    aliases = ("greater",)
    dunder = ("__gt__",)
    promote = Promote.COMPARE
    refuse = ("complex",)
    onnx = "Greater"

    def expr(self, s, x, y):
        return x > y


class Ge(Pointwise):
    """Whether input is greater than other or equal."""

    schema = "ge(Tensor input, Tensor|Scalar other) -> Tensor"
    aliases = ("greater_equal",)
    dunder = ("__ge__",)
    promote = Promote.COMPARE
    refuse = ("complex",)
    onnx = "GreaterOrEqual"

    def expr(self, s, x, y):
        return x >= y


class Isclose(Pointwise):
    """Whether |input - other| <= atol + rtol * |other|; infinities are close to themselves only."""

    schema = "isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"
    promote = Promote.TO_FLOAT
    result = "bool"
    inplace = out = False

    def check(self, input, other, rtol, atol):
        check_same_dtype("isclose", input, other)
        for name, value in (("rtol", rtol), ("atol", atol)):
            if value < 0:
                raise RuntimeError(f"isclose: {name} must not be negative, got {value}")

    def expr(self, s, x, y, rtol, atol, equal_nan):
        gap = s.abs(x - y)
        size = s.abs(y)
        close = s.eq(x, y) | (s.isfinite(gap) & (gap <= atol + s.abs(rtol * size)))
        return close | (s.isnan(x) & s.isnan(y)) if equal_nan else close


class Isnan(Pointwise):
    """Whether input is not a number."""

    schema = "isnan(Tensor input) -> Tensor"
    result = "bool"
    inplace = out = False
    onnx = "IsNaN"

    def expr(self, s, x):
        return s.isnan(x)


class Isinf(Pointwise):
    """Whether input is infinite, in either part."""

    schema = "isinf(Tensor input) -> Tensor"
    result = "bool"
    inplace = out = False
    onnx = "IsInf"

    def expr(self, s, x):
        return s.isinf(x)


class Isfinite(Pointwise):
    """Whether input is neither infinite nor NaN."""

    schema = "isfinite(Tensor input) -> Tensor"
    result = "bool"
    inplace = out = False

    def expr(self, s, x):
        return s.isfinite(x)


class Isposinf(Pointwise):
    """Whether input is positive infinity."""

    schema = "isposinf(Tensor input) -> Tensor"
    result = "bool"
    inplace = False

    def check(self, input):
        if is_complex(input):
            raise RuntimeError("isposinf: complex inputs have no sign. Test the real and imaginary parts.")

    def expr(self, s, x):
        return s.isposinf(x)


class Isneginf(Pointwise):
    """Whether input is negative infinity."""

    schema = "isneginf(Tensor input) -> Tensor"
    result = "bool"
    inplace = False

    def check(self, input):
        if is_complex(input):
            raise RuntimeError("isneginf: complex inputs have no sign. Test the real and imaginary parts.")

    def expr(self, s, x):
        return s.isneginf(x)


class Isreal(Pointwise):
    """Whether the imaginary part is 0."""

    schema = "isreal(Tensor input) -> Tensor"
    result = "bool"
    inplace = out = False

    def expr(self, s, x):
        return s.eq(s.imag(x), 0) if x.dtype in COMPLEX else s.const(True, "b1")


def refuse_complex(name: str, *operands: object) -> None:
    """Refuse complex numbers, which have no order."""
    if any(map(is_complex, operands)):
        raise RuntimeError(f"{name}: not implemented for complex tensors, which have no order. Compare abs() or parts.")


def shared_at_ties(s, g, wins, ties):
    """g to the winner, half of it to each side of a tie, 0 to the loser."""
    return s.where(ties, g * 0.5, s.where(wins, g, 0))


class Maximum(Pointwise):
    """The larger of two; NaN if either is."""

    schema = "maximum(Tensor input, Tensor other) -> Tensor"
    inplace = False

    def check(self, input, other):
        refuse_complex("maximum", input, other)

    def expr(self, s, x, y):
        return s.maximum(x, y)

    def vjp(self, s, g, input, other):
        ties = s.eq(input, other)
        return {
            "input": shared_at_ties(s, g, ~(input < other), ties),
            "other": shared_at_ties(s, g, ~(other < input), ties),
        }


class Minimum(Pointwise):
    """The smaller of two; NaN if either is."""

    schema = "minimum(Tensor input, Tensor other) -> Tensor"
    inplace = False

    def check(self, input, other):
        refuse_complex("minimum", input, other)

    def expr(self, s, x, y):
        return s.minimum(x, y)

    def vjp(self, s, g, input, other):
        ties = s.eq(input, other)
        return {
            "input": shared_at_ties(s, g, ~(input > other), ties),
            "other": shared_at_ties(s, g, ~(other > input), ties),
        }


class Fmax(Pointwise):
    """The larger of two, ignoring a NaN when the other is a number."""

    schema = "fmax(Tensor input, Tensor other) -> Tensor"
    inplace = False

    def check(self, input, other):
        refuse_complex("fmax", input, other)

    def expr(self, s, x, y):
        return s.fmax(x, y)

    def vjp(self, s, g, input, other):
        first = (input >= other) | s.isnan(other)
        return {"input": s.where(first, g, 0), "other": s.where(first, 0, g)}


class Fmin(Pointwise):
    """The smaller of two, ignoring a NaN when the other is a number."""

    schema = "fmin(Tensor input, Tensor other) -> Tensor"
    inplace = False

    def check(self, input, other):
        refuse_complex("fmin", input, other)

    def expr(self, s, x, y):
        return s.fmin(x, y)

    def vjp(self, s, g, input, other):
        first = (input <= other) | s.isnan(other)
        return {"input": s.where(first, g, 0), "other": s.where(first, 0, g)}


class Heaviside(Pointwise):
    """0 below zero, 1 above it, `values` at it."""

    schema = "heaviside(Tensor input, Tensor values) -> Tensor"
    no_derivative = ("input", "values")

    def check(self, input, values):
        if is_complex(input) or is_complex(values):
            raise RuntimeError("heaviside: not implemented for complex tensors, which have no sign.")
        check_same_dtype("heaviside", input, values)

    def expr(self, s, x, values):
        return s.heaviside(x, values)


class Equal(Composite):
    """Whether sizes and elements are equal: False, or an element; None where that takes more than one go."""

    schema = "_equal(Tensor input, Tensor other) -> Tensor"
    function = method = out = False
    replays = True

    def compute(self, input, other):
        if not (input.is_cpu and other.is_cpu):
            return None
        if input.shape != other.shape:
            return False
        return (input == other).all() if 0 < input.numel() <= FEW else None
