"""`torch.ao.nn.sparse.quantized`: layers of integers whose weights are zero in whole blocks."""

from .....base import late

_SOURCES = late.by_name({"linear": "Linear LinearPackedParams"})

__all__ = ["dynamic", *_SOURCES]
__getattr__, __dir__ = late.names(globals(), _SOURCES, ("dynamic", "linear", "utils"))
