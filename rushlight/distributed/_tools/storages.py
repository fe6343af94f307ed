"""The storages of a tensor, wrapper subclasses taken apart; and of storages, which are still in use.

Enters: tensors. Leaves: their storages, and whether anybody else holds one.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from ... import _C
from ...base import environment
from ...dispatch.modes import TorchDispatchMode
from ...fake import FakeTensorMode
from ...storage import UntypedStorage
from ...utils._python_dispatch import _get_current_dispatch_mode_stack, is_traceable_wrapper_subclass

# What an allocator of GPUs gives at least.
LEAST = 1 << 9 if environment.get("PYTORCH_NO_CUDA_MEMORY_CACHING") in ("", "0") else 1


def get_untyped_storages(t: Any) -> set[UntypedStorage]:
    """All storages of a tensor."""
    waiting, found = [t], set()
    while waiting:
        each = waiting.pop()
        if is_traceable_wrapper_subclass(each):
            names, _ = each.__tensor_flatten__()
            waiting += [part for part in (getattr(each, name) for name in names) if isinstance(part, _C.Tensor)]
        elif not hasattr(each, "untyped_storage"):
            warnings.warn(f"expected a tensor or a wrapper of tensors, got {type(each)}", stacklevel=2)
        else:
            found.add(each.untyped_storage())
    return found


def is_held_elsewhere(storage: UntypedStorage, references: int) -> bool:
    """Whether anything but `references` Python references of the caller's to this object keeps a storage."""
    # the storage is held once by the object; the object by the caller, this argument, and the question's own
    return storage._holders > 1 or sys.getrefcount(storage) > references + 2


def bytes_taken(nbytes: int, device: Any) -> int:
    """What so many bytes take of a device's memory."""
    return -(-nbytes // LEAST) * LEAST if device.type == "cuda" else nbytes


def active_fake_mode() -> TorchDispatchMode | None:
    """The mode in which tensors have no elements, if one is active."""
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, FakeTensorMode):
            return mode
    return None
