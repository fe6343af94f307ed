"""`torch.ao`: models made smaller. Pruning is here whole; of quantization, the marks that models carry."""

from . import pruning, quantization

__all__ = ["pruning", "quantization"]
