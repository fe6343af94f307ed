"""`torch.cuda.nccl`: collective copies among GPUs. There is no CUDA device: using a name says so."""

from .no_device import _needs_device

NAMES = "all_reduce reduce broadcast all_gather reduce_scatter version unique_id init_rank"
globals().update({name: _needs_device(name, __name__) for name in NAMES.split()})
__all__ = NAMES.split()


def is_available(tensors: object) -> bool:
    """Whether NCCL could copy these tensors: not without GPUs."""
    return False
