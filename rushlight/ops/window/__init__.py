"""Windows over images: the private ops that pools and interpolations are made of."""

from rushlight.ops.window import fractional, maxima, sums

__all__ = ["fractional", "maxima", "sums"]
