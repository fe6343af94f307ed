"""`torch._higher_order_ops`: where PyTorch keeps control flow as functions; here it is
`rushlight.torch_names.control_flow`."""

from ..torch_names.control_flow import associative_scan, cond, while_loop

__all__ = ["associative_scan", "cond", "while_loop"]
