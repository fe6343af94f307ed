"""Chains of layers that run as one kernel on integers."""

from ......base import late

LAYERS = late.by_name({
    "linear_relu": "LinearReLU LinearLeakyReLU LinearTanh",
    "conv_relu": "ConvReLU1d ConvReLU2d ConvReLU3d",
    "conv_add": "ConvAdd2d ConvAddReLU2d",
    "bn_relu": "BNReLU2d BNReLU3d",
})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("bn_relu", "conv_add", "conv_relu", "linear_relu"))
