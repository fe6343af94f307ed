"""The pointwise definitions, by family. Importing this package registers them all."""

from rushlight.ops.pointwise import (
    activation,
    arithmetic,
    bessel,
    bitwise,
    compare,
    complex,
    exponential,
    hyperbolic,
    incomplete_gamma,
    logic,
    polynomials,
    rounding,
    special,
    ternary,
    trig,
)

__all__ = [
    "activation", "arithmetic", "bessel", "bitwise", "compare", "complex", "exponential", "hyperbolic",
    "incomplete_gamma", "logic", "polynomials", "rounding", "special", "ternary", "trig",
]  # fmt: skip
