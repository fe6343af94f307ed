"""Trigonometric functions and angles.

Enters: tensors of any dtype; integers become the default float. Leaves: a floating or complex dtype.
Refuses: complex numbers where only a plane angle is meant.
"""

from __future__ import annotations

import math

from rushlight.definitions.pointwise.checks import is_complex
from rushlight.op import Pointwise, Promote


class Sin(Pointwise):
    """Sine."""

    schema = "sin(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Sin"

    def expr(self, s, x):
        return s.sin(x)


class Cos(Pointwise):
    """Cosine."""

    schema = "cos(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Cos"

    def expr(self, s, x):
        return s.cos(x)


class Tan(Pointwise):
    """Tangent."""

    schema = "tan(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Tan"

    def expr(self, s, x):
        return s.tan(x)

    def vjp(self, s, g, result):
        return {"input": g * s.conj(1 + result * result)}


class Asin(Pointwise):
    """Inverse sine."""

    schema = "asin(Tensor input) -> Tensor"
    aliases = ("arcsin",)
    promote = Promote.TO_FLOAT
    onnx = "Asin"

    def expr(self, s, x):
        return s.asin(x)


class Acos(Pointwise):
    """Inverse cosine."""

    schema = "acos(Tensor input) -> Tensor"
    aliases = ("arccos",)
    promote = Promote.TO_FLOAT
    onnx = "Acos"

    def expr(self, s, x):
        return s.acos(x)


class Atan(Pointwise):
    """Inverse tangent."""

    schema = "atan(Tensor input) -> Tensor"
    aliases = ("arctan",)
    promote = Promote.TO_FLOAT
    onnx = "Atan"

    def expr(self, s, x):
        return s.atan(x)


class Atan2(Pointwise):
    """The angle of the point (other, input), in (-pi, pi]."""

    schema = "atan2(Tensor input, Tensor other) -> Tensor"
    aliases = ("arctan2",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, y, x):
        return s.atan2(y, x)

    def vjp(self, s, g, input, other):
        square = input * input + other * other
        # At the origin every angle is as good: the gradient is 0.
        scale = s.where(s.eq(square, 0), 0, g / s.where(s.eq(square, 0), 1, square))
        return {"input": scale * other, "other": -scale * input}


class Hypot(Pointwise):
    """sqrt(input**2 + other**2), without overflow."""

    schema = "hypot(Tensor input, Tensor other) -> Tensor"
    refuse = ("bool", "integer", "complex")

    def expr(self, s, x, y):
        return s.hypot(x, y)

    def vjp(self, s, g, input, other, result):
        return {"input": g * (input / result), "other": g * (other / result)}


class Sinc(Pointwise):
    """sin(pi x) / (pi x), 1 at 0."""

    schema = "sinc(Tensor input) -> Tensor"
    aliases = ("special.sinc",)
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.sinc(x)

    def vjp(self, s, g, input):
        angle = s.where(s.eq(input, 0), 1, math.pi * input)
        slope = (s.cos(angle) * angle - s.sin(angle)) / (angle * input)
        return {"input": s.where(s.eq(input, 0), 0, g * s.conj(slope))}


class Deg2rad(Pointwise):
    """Degrees to radians."""

    schema = "deg2rad(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT

    def check(self, input):
        if is_complex(input):
            raise RuntimeError("deg2rad: not supported for complex tensors.")

    def expr(self, s, x):
        return x * (math.pi / 180)


class Rad2deg(Pointwise):
    """Radians to degrees."""

    schema = "rad2deg(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT

    def check(self, input):
        if is_complex(input):
            raise RuntimeError("rad2deg: not supported for complex tensors.")

    def expr(self, s, x):
        return x * (180 / math.pi)
