"""`torch.cuda.nccl`: what NVIDIA's library is, where there is one. Its collectives between the cards of one process are
refused: `rushlight.distributed` has them between processes, one per card."""

from __future__ import annotations

from typing import Any

from ..devices.cuda import nccl
from .no_device import _needs_device

NAMES = "all_reduce reduce broadcast all_gather reduce_scatter init_rank"
globals().update({name: _needs_device(name, __name__) for name in NAMES.split()})
__all__ = [*NAMES.split(), "is_available", "unique_id", "version"]


def _library(what: str) -> nccl.Library:
    found = nccl.library()
    if found is None:
        raise RuntimeError(f"cuda.nccl.{what}: there is no libnccl.so.2 here: pip install rushlight[nccl]")
    return found


def version() -> tuple[int, int, int]:
    """The library's version: (2, 27, 7), say."""
    return _library("version").version()


def unique_id() -> bytes:
    """By which the ranks of a new communicator know each other."""
    return _library("unique_id").unique_id()


def is_available(tensors: Any) -> bool:
    """Whether NCCL could take these tensors: dense ones, each on a card of its own."""
    tensors = list(tensors)
    cards = {t.device for t in tensors}
    return (
        nccl.library() is not None
        and all(t.is_cuda and not t.is_sparse and t.is_contiguous() for t in tensors)
        and len(cards) == len(tensors)
    )
