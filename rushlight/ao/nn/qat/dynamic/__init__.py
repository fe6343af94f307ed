"""`torch.ao.nn.qat.dynamic`: training for layers that will quantize their inputs by the moment's range."""

from .....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("modules",)
)
