"""`torch.ao`: models made smaller, by pruning and by quantization; each part is imported when first asked for."""

from ..base import late

_FILES = ("nn", "ns", "pruning", "quantization")

__all__ = list(_FILES)
__getattr__, __dir__ = late.names(globals(), {}, _FILES)
