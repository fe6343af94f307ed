"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")


from rushlight import return_types as _return_types
from rushlight.base.shape import layout as _layout, memory_format as _memory_format
from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype
from rushlight.distributed.options import AllToAllOptions as AllToAllOptions
from rushlight.distributed.options import AllgatherOptions as AllgatherOptions
from rushlight.distributed.options import AllreduceCoalescedOptions as AllreduceCoalescedOptions
from rushlight.distributed.options import AllreduceOptions as AllreduceOptions
from rushlight.distributed.groups import Backend as Backend
from rushlight.distributed.groups import BackendConfig as BackendConfig
from rushlight.distributed.options import BarrierOptions as BarrierOptions
from rushlight.distributed.options import BroadcastOptions as BroadcastOptions
from rushlight.distributed.device_mesh import DeviceMesh as DeviceMesh
from rushlight.distributed.errors import DistBackendError as DistBackendError
from rushlight.distributed.errors import DistError as DistError
from rushlight.distributed.errors import DistNetworkError as DistNetworkError
from rushlight.distributed.errors import DistStoreError as DistStoreError
from rushlight.distributed.store import FileStore as FileStore
from rushlight.distributed.options import GatherOptions as GatherOptions
from rushlight.distributed.groups import GroupMember as GroupMember
class GroupName:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.distributed.store import HashStore as HashStore
from rushlight.distributed.collectives import P2POp as P2POp
from rushlight.distributed.store import PrefixStore as PrefixStore
from rushlight.distributed.group import ProcessGroup as ProcessGroup
from rushlight.distributed.group import HostBackend as ProcessGroupGloo
from rushlight.distributed.nccl_backend import NcclBackend as ProcessGroupNCCL
from rushlight.distributed.errors import QueueEmptyError as QueueEmptyError
from rushlight.distributed.reduce_op import ReduceOp as ReduceOp
from rushlight.distributed.options import ReduceOptions as ReduceOptions
from rushlight.distributed.options import ReduceScatterOptions as ReduceScatterOptions
from rushlight.distributed.options import ScatterOptions as ScatterOptions
from rushlight.distributed.store import Store as Store
from rushlight.distributed.tcp_store import TCPStore as TCPStore
from rushlight.distributed.work import Work as Work
from rushlight.distributed.collectives import all_gather as all_gather
from rushlight.distributed.collectives import all_gather_coalesced as all_gather_coalesced
from rushlight.distributed.collectives import all_gather_into_tensor as all_gather_into_tensor
from rushlight.distributed.collectives import all_gather_object as all_gather_object
from rushlight.distributed.collectives import all_gather_into_tensor as all_gather_single
from rushlight.distributed.collectives import all_reduce as all_reduce
from rushlight.distributed.collectives import all_reduce_coalesced as all_reduce_coalesced
from rushlight.distributed.collectives import all_to_all as all_to_all
from rushlight.distributed.collectives import all_to_all_single as all_to_all_single
annotations: Any
from . import autograd as autograd
from rushlight.distributed.collectives import barrier as barrier
from rushlight.distributed.collectives import batch_isend_irecv as batch_isend_irecv
from rushlight.distributed.collectives import broadcast as broadcast
from rushlight.distributed.collectives import broadcast_object_list as broadcast_object_list
from . import checkpoint as checkpoint
from . import collectives as collectives
default_pg_timeout: Any
from rushlight.distributed.groups import destroy_process_group as destroy_process_group
from . import device_mesh as device_mesh
from . import distributed_c10d as distributed_c10d
from . import doors as doors
from . import elastic as elastic
from . import errors as errors
from . import fake_backend as fake_backend
from . import flight_recorder as flight_recorder
from rushlight.distributed.collectives import gather as gather
from rushlight.distributed.collectives import gather_object as gather_object
from rushlight.distributed.groups import get_backend as get_backend
from rushlight.distributed.groups import get_backend_config as get_backend_config
from rushlight.distributed.groups import get_default_backend_for_device as get_default_backend_for_device
from rushlight.distributed.groups import get_global_rank as get_global_rank
from rushlight.distributed.groups import get_group_rank as get_group_rank
from rushlight.distributed.groups import get_node_local_rank as get_node_local_rank
from rushlight.distributed.groups import get_pg_count as get_pg_count
from rushlight.distributed.groups import get_process_group_ranks as get_process_group_ranks
from rushlight.distributed.groups import get_rank as get_rank
from rushlight.distributed.groups import get_world_size as get_world_size
from rushlight.distributed.groups import group as group
from . import groups as groups
from rushlight.distributed.device_mesh import init_device_mesh as init_device_mesh
from rushlight.distributed.groups import init_process_group as init_process_group
from rushlight.distributed.collectives import irecv as irecv
def is_available() -> builtins.bool: ...
from rushlight.distributed.groups import is_backend_available as is_backend_available
from rushlight.distributed.groups import is_gloo_available as is_gloo_available
from rushlight.distributed.groups import is_initialized as is_initialized
from rushlight.distributed.groups import is_mpi_available as is_mpi_available
from rushlight.distributed.groups import is_nccl_available as is_nccl_available
from rushlight.distributed.groups import is_torchelastic_launched as is_torchelastic_launched
from rushlight.distributed.groups import _no as is_ucc_available
from rushlight.distributed.groups import _no as is_xccl_available
from rushlight.distributed.collectives import isend as isend
from . import mailbox as mailbox
from rushlight.distributed.collectives import monitored_barrier as monitored_barrier
from . import mpi_backend as mpi_backend
from . import nccl_backend as nccl_backend
from . import nccl_work as nccl_work
from rushlight.distributed.groups import new_group as new_group
from rushlight.distributed.groups import new_subgroups as new_subgroups
from rushlight.distributed.groups import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from . import nn as nn
from . import optim as optim
from . import options as options
from . import pipelining as pipelining
from . import ray as ray
from rushlight.distributed.collectives import recv as recv
from rushlight.distributed.collectives import recv_object_list as recv_object_list
from rushlight.distributed.collectives import reduce as reduce
reduce_op: Any
from rushlight.distributed.collectives import reduce_scatter as reduce_scatter
from rushlight.distributed.collectives import reduce_scatter_tensor as reduce_scatter_single
from rushlight.distributed.collectives import reduce_scatter_tensor as reduce_scatter_tensor
from rushlight.distributed.rendezvous import register_rendezvous_handler as register_rendezvous_handler
from rushlight.distributed.rendezvous import rendezvous as rendezvous
from . import rpc as rpc
from rushlight.distributed.collectives import scatter as scatter
from rushlight.distributed.collectives import scatter_object_list as scatter_object_list
from . import segment as segment
from rushlight.distributed.collectives import send as send
from rushlight.distributed.collectives import send_object_list as send_object_list
from . import shared_transport as shared_transport
from rushlight.distributed.groups import shrink_group as shrink_group
from . import socket_transport as socket_transport
from rushlight.distributed.groups import split_group as split_group
from . import store as store
from rushlight.distributed.reduce_op import supports_complex as supports_complex
from . import tcp_store as tcp_store
from . import tensor as tensor
from . import work as work
