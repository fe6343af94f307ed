"""`torch.distributed`: several processes that work as one.

Enters: tensors and modules of one process among several. Leaves: tensors reduced, gathered or spread over all of them,
modules that do so by themselves, and checkpoints. Refuses: groups and sizes that do not agree.

Processes meet at a store (`init_process_group`), form groups, and exchange tensors by collectives. Between processes of
one machine these go through shared memory, between machines through sockets.
"""

from __future__ import annotations

from ..base import late
from .device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import (  # noqa: F401
    __all__,
    _get_default_group,
    _rank_not_in_group,
)
from .rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401


def is_available() -> bool:
    """Whether programs may use several processes."""
    return True


__getattr__, __dir__ = late.names(
    globals(), {}, ("autograd", "checkpoint", "elastic", "nn", "optim", "pipelining", "ray", "rpc", "tensor"),
)
