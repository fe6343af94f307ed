"""`torch._higher_order_ops.associative_scan`, the module."""

from ..torch_names.control_flow import associative_scan  # noqa: F401
