"""How tensors and storages are pickled for another process.

Enters: storages of the CPU and of CUDA devices, and tensors over them. Leaves: descriptors of memory files, or the
driver's handles (devices/cuda/ipc.py); on the other side, storages over the same memory. Refuses: tensors computed in a
graph, since no graph reaches across processes.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any

from .._C import Tensor, UntypedStorage, empty
from ..base.shape import strided
from ..tensors.storages import face_of


def refuse_graph(t: Tensor) -> None:
    """Raise for a tensor that cannot be sent without its history."""
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "a non-leaf tensor that requires grad cannot be sent to another process: "
            "its graph stays in this one. "
            "Send tensor.detach()."
        )


def rebuild_storage_fd(cls: type, df: Any, size: int) -> UntypedStorage:
    """A storage over the memory file that was sent."""
    fd = df.detach()
    try:
        return cls._new_shared_fd_cpu(fd, size)
    finally:
        os.close(fd)


def _ipc() -> Any:
    from ..devices.cuda import ipc  # few programs send device memory

    return ipc


def rebuild_storage_cuda(*sent: Any) -> UntypedStorage:
    """A storage over device memory of the process that sent it."""
    return _ipc().receive(*sent)


def rebuild_storage_empty(cls: type) -> UntypedStorage:
    return cls(0)


def reduce_storage(storage: UntypedStorage) -> Any:
    """Move to shared memory, and pickle where that is."""
    if storage.device.type == "cuda" and storage.nbytes():
        return rebuild_storage_cuda, _ipc().share(storage)
    if storage.device.type != "cpu":
        return storage.__reduce_ex__(4)
    if storage.nbytes() == 0:  # nothing to map, and so nothing to share
        return rebuild_storage_empty, (type(storage),)
    fd, size = storage._share_fd_cpu_()
    return rebuild_storage_fd, (type(storage), reduction.DupFd(fd), size)


def rebuild_tensor(cls: type, storage: UntypedStorage, metadata: tuple) -> Tensor:
    """A tensor over a storage that arrived."""
    dtype, offset, size, stride, requires_grad = metadata
    result = empty((0,), None, dtype, storage.device)
    result._set_storage(storage, offset, size, stride)
    return result.requires_grad_() if requires_grad else result


def reduce_tensor(tensor: Tensor) -> Any:
    """Pickle by the storage it shares. Attributes, subclasses and other layouts go the tensor's own way,
    storages as here."""
    refuse_graph(tensor)
    is_shared = tensor.device.type in ("cpu", "cuda")
    has_more = tensor.__dict__ or tensor.is_conj() or tensor.is_neg()
    if type(tensor) is not Tensor or has_more or not is_shared or tensor.layout is not strided:
        return tensor.__reduce_ex__(4)
    metadata = (tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
    return rebuild_tensor, (type(tensor), face_of(tensor), metadata)


def init_reductions() -> None:
    """Teach pickling between processes about tensors. Subclasses arrive at their storages by `__reduce_ex__`."""
    reduction.ForkingPickler.register(UntypedStorage, reduce_storage)
    reduction.ForkingPickler.register(Tensor, reduce_tensor)
