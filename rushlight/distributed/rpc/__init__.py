"""`torch.distributed.rpc` in a build without it: `is_available()` is False; the names libraries import refuse when used."""

from __future__ import annotations

from ...absent import absent_names
from . import api  # noqa: F401


def is_available() -> bool:
    """Whether processes can call each other."""
    return False


globals().update(absent_names("torch.distributed.rpc", "running over several processes is not written yet",
                              "RRef PyRRef init_rpc shutdown rpc_sync rpc_async remote get_worker_info WorkerInfo TensorPipeRpcBackendOptions BackendType "
                              "RpcBackendOptions backend_registry functions"))
