"""`torch.ao.nn.intrinsic.qat`: chains of layers in training with rounded weights."""

from .....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("modules",)
)
