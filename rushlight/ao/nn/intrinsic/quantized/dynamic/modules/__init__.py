"""Chains whose inputs are quantized by the moment's range."""

from .......base import late

LAYERS = {"LinearReLU": "linear_relu"}

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("linear_relu",))
