"""`torch.ao.nn.quantized.reference`: float layers that show what quantized weights do to them: every call rounds the
weights to integers and back."""

from .....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(), {name: f"modules.{file}" for name, file in LAYERS.items()}, ("modules",)
)
