"""`torch.distributed.elastic.multiprocessing`: what processes of a job say of their ends."""

from . import errors

__all__ = ["errors"]
