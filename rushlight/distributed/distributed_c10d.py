"""`torch.distributed.distributed_c10d`: groups and collectives under the name of PyTorch's module."""

from __future__ import annotations

from .collectives import (
    P2POp,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_object,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    monitored_barrier,
    recv,
    recv_object_list,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
)
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from .group import HostBackend as ProcessGroupGloo, ProcessGroup
from .groups import (
    Backend,
    BackendConfig,
    GroupMember,
    default_group as _get_default_group,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    shrink_group,
    split_group,
)
from .nccl_backend import NcclBackend as ProcessGroupNCCL
from .options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from .reduce_op import ReduceOp, reduce_op, supports_complex
from .store import FileStore, HashStore, PrefixStore, Store
from .tcp_store import TCPStore
from .work import Work

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend",
    "BackendConfig", "BarrierOptions", "BroadcastOptions", "DistBackendError", "DistError", "DistNetworkError",
    "DistStoreError", "FileStore", "GatherOptions", "GroupMember", "GroupName", "HashStore", "P2POp", "PrefixStore",
    "ProcessGroup", "ProcessGroupGloo", "ProcessGroupNCCL", "QueueEmptyError", "ReduceOp", "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions", "Store", "TCPStore", "Work", "all_gather", "all_gather_coalesced", "all_gather_into_tensor",
    "all_gather_object", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "default_pg_timeout",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_backend_config",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_op",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
    "send_object_list", "shrink_group", "split_group", "supports_complex",
]  # fmt: skip

GroupName = str


def _rank_not_in_group(pg: object) -> bool:
    """Whether this process is not in a group."""
    return pg is GroupMember.NON_GROUP_MEMBER


def _get_default_store() -> Store:
    """The store that the world met at."""
    return _get_default_group().get_group_store()
