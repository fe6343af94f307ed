"""Complex numbers: conjugates, angles, and building them from real parts.

Enters: real or complex tensors. Leaves: complex tensors, or real parts of them.
Refuses: building from anything but float32 or float64 parts.
"""

from __future__ import annotations

from rushlight.loops.expr import COMPLEX
from rushlight.op import Composite, Pointwise, Promote, find_op


class ConjPhysical(Composite):
    """The conjugate, written out; a real tensor itself."""

    schema = "conj_physical(Tensor input) -> Tensor"

    def compute(self, input):
        return find_op("_conj_physical")(input) if input.dtype.is_complex else input


class ConjPhysicalElements(Pointwise):
    """The conjugate, with memory of its own."""

    schema = "_conj_physical(Tensor input) -> Tensor"

    def expr(self, s, x):
        return s.conj(x)


class Angle(Pointwise):
    """The angle from the positive real axis; of a real number 0 or pi."""

    schema = "angle(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    result = "real"
    inplace = False

    def expr(self, s, x):
        return s.angle(x)

    def vjp(self, s, g, input):
        if input.dtype not in COMPLEX:
            return {"input": s.const(0, g.dtype)}
        re, im = s.real(input), s.imag(input)
        square = re * re + im * im
        scale = s.where(s.eq(square, 0), 0, g / s.where(s.eq(square, 0), 1, square))
        return {"input": s.complex(-scale * im, scale * re)}


def check_parts(name: str, first: object, second: object) -> None:
    """Refuse parts that are not float16, float32 or float64, or differ."""
    first, second = first.dtype, second.dtype
    for part in (first, second):
        if part.name not in ("float16", "float32", "float64"):
            raise RuntimeError(
                f"{name}: inputs must be float16, float32 or float64 tensors, got {first.name} and {second.name}"
            )
    if first.name != second.name:
        raise RuntimeError(f"{name}: inputs must have one dtype, got {first.name} and {second.name}")


class Complex(Pointwise):
    """real + imag * 1j."""

    schema = "complex(Tensor real, Tensor imag) -> Tensor"
    exact_out = True
    result = "complex"
    method = inplace = False

    def check(self, real, imag):
        check_parts("complex", real, imag)

    def expr(self, s, re, im):
        return s.complex(re, im)

    def vjp(self, s, g):
        return {"real": s.real(g), "imag": s.imag(g)}


class Polar(Pointwise):
    """The complex number with this modulus and angle."""

    schema = "polar(Tensor abs, Tensor angle) -> Tensor"
    result = "complex"
    method = inplace = False

    def check(self, abs, angle):
        check_parts("polar", abs, angle)
        if abs.dtype.name == "float16":
            raise NotImplementedError("\"polar\" not implemented for 'float16'")

    def expr(self, s, size, angle):
        return s.polar(size, angle)

    def vjp(self, s, g, abs, angle):
        cos, sin, re, im = s.cos(angle), s.sin(angle), s.real(g), s.imag(g)
        return {"abs": re * cos + im * sin, "angle": abs * (im * cos - re * sin)}
