"""Exponentials, logarithms and roots.

Enters: tensors of any dtype; integers become the default float. Leaves: a floating or complex dtype.
Refuses: complex numbers where no complex version is defined.
"""

from __future__ import annotations

import math

from rushlight.op import Pointwise, Promote


class Exp(Pointwise):
    """e ** input."""

    schema = "exp(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Exp"

    def expr(self, s, x):
        return s.exp(x)

    def vjp(self, s, g, result):
        return {"input": g * s.conj(result)}


class Exp2(Pointwise):
    """2 ** input."""

    schema = "exp2(Tensor input) -> Tensor"
    aliases = ("special.exp2",)
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.exp2(x)

    def vjp(self, s, g, result):
        return {"input": g * s.conj(result) * math.log(2.0)}


class Expm1(Pointwise):
    """e ** input - 1, exact near 0."""

    schema = "expm1(Tensor input) -> Tensor"
    aliases = ("special.expm1",)
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.expm1(x)

    def vjp(self, s, g, result):
        return {"input": g * s.conj(result + 1)}


class Log(Pointwise):
    """Natural logarithm."""

    schema = "log(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Log"

    def expr(self, s, x):
        return s.log(x)

    def vjp(self, s, g, input):
        return {"input": g / s.conj(input)}


class Log2(Pointwise):
    """Logarithm to base 2."""

    schema = "log2(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.log2(x)

    def vjp(self, s, g, input):
        return {"input": g / s.conj(input * math.log(2.0))}


class Log10(Pointwise):
    """Logarithm to base 10."""

    schema = "log10(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.log10(x)

    def vjp(self, s, g, input):
        return {"input": g / s.conj(input * math.log(10.0))}


class Log1p(Pointwise):
    """log(1 + input), exact near 0."""

    schema = "log1p(Tensor input) -> Tensor"
    aliases = ("special.log1p",)
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.log1p(x)

    def vjp(self, s, g, input):
        return {"input": g / s.conj(input + 1)}


class Sqrt(Pointwise):
    """Square root."""

    schema = "sqrt(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Sqrt"

    def expr(self, s, x):
        return s.sqrt(x)

    def vjp(self, s, g, result):
        return {"input": g / s.conj(2 * result)}


class Rsqrt(Pointwise):
    """1 / sqrt(input)."""

    schema = "rsqrt(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT

    def expr(self, s, x):
        return s.rsqrt(x)

    def vjp(self, s, g, result):
        return {"input": -0.5 * g * s.conj(result * result * result)}


class Logaddexp(Pointwise):
    """log(e ** input + e ** other), without overflow."""

    schema = "logaddexp(Tensor input, Tensor other) -> Tensor"
    inplace = False
    refuse = ("bool", "integer")

    def expr(self, s, x, y):
        return s.logaddexp(x, y)

    def vjp(self, s, g, input, other):
        return {"input": g / s.conj(1 + s.exp(other - input)), "other": g / s.conj(1 + s.exp(input - other))}


class Logaddexp2(Pointwise):
    """log2(2 ** input + 2 ** other), without overflow."""

    schema = "logaddexp2(Tensor input, Tensor other) -> Tensor"
    inplace = False
    refuse = ("bool", "integer", "complex")

    def expr(self, s, x, y):
        gap = s.where(s.eq(x, y), 0, x - y)
        return s.maximum(x, y) + s.log1p(s.exp2(-s.abs(gap))) * (1 / math.log(2.0))

    def vjp(self, s, g, input, other):
        return {"input": g / (1 + s.exp2(other - input)), "other": g / (1 + s.exp2(input - other))}


class Xlogy(Pointwise):
    """input * log(other), 0 where input is 0."""

    schema = "xlogy(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    aliases = ("special.xlogy",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x, y):
        return s.xlogy(x, y)

    def vjp(self, s, g, input, other):
        flat = s.eq(input, 0) & (other <= 0)
        return {"input": s.where(flat, 0, g * s.log(s.where(flat, 1, other))), "other": g * input / other}


class Xlog1py(Pointwise):
    """input * log1p(other), 0 where input is 0."""

    schema = "xlog1py(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x, y):
        return s.xlog1py(x, y)

    def vjp(self, s, g, input, other):
        flat = s.eq(input, 0) & (other <= -1)
        return {"input": s.where(flat, 0, g * s.log1p(s.where(flat, 0, other))), "other": g * input / (other + 1)}
