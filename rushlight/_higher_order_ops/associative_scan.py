"""`torch._higher_order_ops.associative_scan`, the module."""

from ..control_flow import associative_scan  # noqa: F401
