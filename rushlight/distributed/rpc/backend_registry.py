"""`torch.distributed.rpc.backend_registry`: the back ends of remote calls. There is one."""

from __future__ import annotations

from enum import Enum
from typing import Any

from .options import TensorPipeRpcBackendOptions

__all__ = ["BackendType", "backend_registered", "construct_rpc_backend_options"]


class BackendType(Enum):
    """The back ends, by name."""

    TENSORPIPE = "TENSORPIPE"


def backend_registered(backend_name: str) -> bool:
    """Whether there is a back end of this name."""
    return backend_name in BackendType.__members__


def construct_rpc_backend_options(backend: BackendType, **options: Any) -> TensorPipeRpcBackendOptions:
    """A back end's options."""
    if not isinstance(backend, BackendType):
        raise TypeError(f"backend must be a BackendType, got {backend!r}")
    return TensorPipeRpcBackendOptions(**options)
