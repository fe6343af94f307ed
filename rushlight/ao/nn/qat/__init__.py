"""`torch.ao.nn.qat`: float layers whose weights pass `weight_fake_quant` on every call, so that training meets the
rounding that conversion will bring."""

from ....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("dynamic", "modules")
)
