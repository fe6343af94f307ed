"""`torch.ao.nn.sparse.quantized.dynamic`: the same, with inputs quantized by the moment's range."""

from ......base import late

_SOURCES = {"Linear": "linear"}

__all__ = list(_SOURCES)
__getattr__, __dir__ = late.names(globals(), _SOURCES, ("linear",))
