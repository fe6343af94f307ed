"""Chains of float layers that are quantized as one."""

from .....base import late

LAYERS = late.by_name({
    "fused": (
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU"
        " BNReLU2d BNReLU3d LinearBn1d LinearLeakyReLU LinearTanh ConvAdd2d ConvAddReLU2d"
    ),
})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), {**LAYERS, "_FusedModule": "fused"}, ("fused",))
