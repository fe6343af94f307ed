"""`torch.ao.nn.intrinsic.quantized`: chains of layers as one kernel on integers."""

from .....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("dynamic", "modules")
)
