"""Rounding to integers and to decimals.

Enters: real tensors; integers pass through unchanged. Leaves: the same dtype. Refuses: booleans and complex numbers.
"""

from __future__ import annotations

from rushlight.op import Pointwise


class Floor(Pointwise):
    """The largest integer not above input."""

    schema = "floor(Tensor input) -> Tensor"
    refuse = ("bool", "complex")
    onnx = "Floor"

    def expr(self, s, x):
        return s.floor(x)


class Ceil(Pointwise):
    """The smallest integer not below input."""

    schema = "ceil(Tensor input) -> Tensor"
    refuse = ("bool", "complex")
    onnx = "Ceil"

    def expr(self, s, x):
        return s.ceil(x)


class Trunc(Pointwise):
    """The integer part."""

    schema = "trunc(Tensor input) -> Tensor"
    aliases = ("fix",)
    refuse = ("bool", "complex")

    def expr(self, s, x):
        return s.trunc(x)


class Frac(Pointwise):
    """What trunc leaves, with the sign of input."""

    schema = "frac(Tensor input) -> Tensor"
    refuse = ("bool", "integer", "complex")

    def expr(self, s, x):
        return x - s.trunc(x)


class Round(Pointwise):
    """The nearest integer, halves to even; or the nearest multiple of 10 ** -decimals."""

    schema = "round(Tensor input, *, int decimals=0) -> Tensor"
    aliases = ("special.round",)
    refuse = ("bool", "complex")
    onnx = "Round"

    def check(self, input, decimals):
        if decimals and not input.dtype.is_floating_point:
            raise NotImplementedError(f"round: decimals needs a floating dtype, got {input.dtype.name}")

    def expr(self, s, x, decimals):
        return s.round(x, decimals)

    def vjp(self, s, g):
        return {"input": s.const(0, g.dtype)}
