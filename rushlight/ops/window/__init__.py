"""Windows over images: the private ops that pools and interpolations are made of."""

from rushlight.ops.window import bytes, fractional, maxima, sums

__all__ = ["bytes", "fractional", "maxima", "sums"]
