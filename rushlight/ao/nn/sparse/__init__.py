"""`torch.ao.nn.sparse`: layers whose weights are mostly zero."""

from ....base import late

_FILES = ("quantized",)

__all__ = list(_FILES)
__getattr__, __dir__ = late.names(globals(), {}, _FILES)
