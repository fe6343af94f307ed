"""`torch.distributed.distributed_c10d`: groups and collectives under the name of PyTorch's module."""

from __future__ import annotations

from . import collectives, groups, options
from .collectives import *  # noqa: F403
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from .group import HostBackend as ProcessGroupGloo, ProcessGroup
from .groups import *  # noqa: F403
from .groups import GroupMember, default_group as _get_default_group
from .nccl_backend import NcclBackend as ProcessGroupNCCL
from .options import *  # noqa: F403
from .reduce_op import ReduceOp, reduce_op, supports_complex
from .store import FileStore, HashStore, PrefixStore, Store
from .tcp_store import TCPStore
from .work import Work

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "GroupName", "HashStore",
    "PrefixStore", "ProcessGroup", "ProcessGroupGloo", "ProcessGroupNCCL", "QueueEmptyError", "ReduceOp", "Store",
    "TCPStore", "Work", "reduce_op", "supports_complex",
]
__all__ += collectives.__all__ + groups.__all__ + options.__all__

GroupName = str


def _rank_not_in_group(pg: object) -> bool:
    """Whether this process is not in a group."""
    return pg is GroupMember.NON_GROUP_MEMBER


def _get_default_store() -> Store:
    """The store that the world met at."""
    return _get_default_group().get_group_store()
