"""Hyperbolic functions.

Enters: tensors of any dtype; integers become the default float. Leaves: a floating or complex dtype. Refuses: nothing.
"""

from __future__ import annotations

from rushlight.op import Pointwise, Promote


class Sinh(Pointwise):
    """Hyperbolic sine."""

    schema = "sinh(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Sinh"

    def expr(self, s, x):
        return s.sinh(x)


class Cosh(Pointwise):
    """Hyperbolic cosine."""

    schema = "cosh(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Cosh"

    def expr(self, s, x):
        return s.cosh(x)


class Tanh(Pointwise):
    """Hyperbolic tangent."""

    schema = "tanh(Tensor input) -> Tensor"
    aliases = ("nn.functional.tanh",)
    promote = Promote.TO_FLOAT
    onnx = "Tanh"

    def expr(self, s, x):
        return s.tanh(x)

    def vjp(self, s, g, result):
        return {"input": g * s.conj(1 - result * result)}


class Asinh(Pointwise):
    """Inverse hyperbolic sine."""

    schema = "asinh(Tensor input) -> Tensor"
    aliases = ("arcsinh",)
    promote = Promote.TO_FLOAT
    onnx = "Asinh"

    def expr(self, s, x):
        return s.asinh(x)


class Acosh(Pointwise):
    """Inverse hyperbolic cosine."""

    schema = "acosh(Tensor input) -> Tensor"
    aliases = ("arccosh",)
    promote = Promote.TO_FLOAT
    onnx = "Acosh"

    def expr(self, s, x):
        return s.acosh(x)


class Atanh(Pointwise):
    """Inverse hyperbolic tangent."""

    schema = "atanh(Tensor input) -> Tensor"
    aliases = ("arctanh",)
    promote = Promote.TO_FLOAT
    onnx = "Atanh"

    def expr(self, s, x):
        return s.atanh(x)
