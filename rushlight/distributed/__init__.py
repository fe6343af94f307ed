"""`torch.distributed` in a build without it: `is_available()` is False, which programs ask before they use the rest.

The names libraries import exist, so that they load; using one raises and says so.
"""

from __future__ import annotations

from .. import late
from ..absent import absent_names
from . import rpc  # noqa: F401
from .device_mesh import DeviceMesh, init_device_mesh  # noqa: F401


class DistError(RuntimeError):
    """A failure of the distributed run time."""


class DistBackendError(DistError):
    """A failure of a communication library."""


class DistNetworkError(DistError):
    """A failure of the network."""


class DistStoreError(DistError):
    """A failure of the key-value store."""


def is_available() -> bool:
    """Whether programs may use several processes."""
    return False


def _no() -> bool:
    """Not in this build."""
    return False


is_initialized = is_mpi_available = is_nccl_available = is_gloo_available = is_ucc_available = is_xccl_available = _no
is_torchelastic_launched = _no


def is_backend_available(backend: str) -> bool:
    """Whether a communication library can be used."""
    return False


_NAMES = (
    "AllreduceOptions Backend BackendConfig FileStore GradBucket GroupMember HashStore P2POp PrefixStore ProcessGroup ReduceOp Store "
    "TCPStore Work all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier batch_isend_irecv broadcast "
    "broadcast_object_list destroy_process_group gather gather_object get_backend get_rank get_world_size get_process_group_ranks group "
    "init_process_group irecv isend monitored_barrier new_group new_subgroups recv recv_object_list reduce reduce_scatter "
    "reduce_scatter_tensor scatter scatter_object_list send send_object_list"
)
globals().update(absent_names("torch.distributed", "running over several processes is not written yet (distributed.is_available() is False)", _NAMES))
__getattr__, __dir__ = late.names(globals(), {}, ("optim",))
