"""`torch._higher_order_ops.map`, the module."""

from .scan import map  # noqa: A004, F401 - PyTorch's name
