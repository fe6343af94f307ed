"""`torch.ao.nn.quantized`: layers whose weights and results are integers with a scale.

Enters: quantized tensors (float ones into `dynamic` and `Quantize`). Leaves: quantized tensors. Refuses: float tensors
where integers are expected, with the layer's path in the model it was converted in.
"""

from ....base import late
from .modules import LAYERS

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(
    globals(),
    {name: f"modules.{file}" for name, file in LAYERS.items()},
    ("dynamic", "functional", "modules", "reference"),
)
