"""Chains that train with rounded weights, batch norms folded in on the way."""

from ......base import late

LAYERS = late.by_name({
    "linear_relu": "LinearReLU",
    "linear_fused": "LinearBn1d",
    "conv_fused": (
        "ConvReLU1d ConvReLU2d ConvReLU3d ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d"
        " update_bn_stats freeze_bn_stats"
    ),
})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("conv_fused", "linear_fused", "linear_relu"))
