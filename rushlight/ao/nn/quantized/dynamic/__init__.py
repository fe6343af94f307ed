"""`torch.ao.nn.quantized.dynamic`: layers that take floats, quantize them by the moment's range, and give floats."""

from .....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("modules",)
)
