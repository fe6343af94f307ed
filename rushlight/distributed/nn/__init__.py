"""`torch.distributed.nn`: modules that live on other workers."""

from .api.remote_module import RemoteModule

__all__ = ["RemoteModule"]
