"""`torch.ao.nn.quantizable`: layers rewritten as several, so that what happens inside can be observed and quantized."""

from ....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("modules",)
)
