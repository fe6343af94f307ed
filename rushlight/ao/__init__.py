"""`torch.ao`: quantization. The marks models carry exist; preparing and converting models is not written yet."""

from . import quantization

__all__ = ["quantization"]
