"""Layers that train with rounded weights and with inputs rounded by the moment's range."""

from ......base import late

LAYERS = {"Linear": "linear"}

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("linear",))
