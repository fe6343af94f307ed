"""`torch.ao.nn.intrinsic`: chains of layers that run as one, in floats, in training (`qat`) and in integers
(`quantized`)."""

from ....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(),
    {**{name: f"modules.{file}" for name, file in LAYERS.items()}, "_FusedModule": "modules.fused"},
    ("modules", "qat", "quantized"),
)
