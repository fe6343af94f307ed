"""`torch.distributed.rpc.options`: how workers meet, and how long calls may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import _C
from . import constants

__all__ = ["RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class RpcBackendOptions:
    """What every back end takes: seconds that a call may take (0: for ever), and where workers meet."""

    def __init__(
        self,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
    ) -> None:
        if rpc_timeout < 0:
            raise ValueError(f"rpc_timeout must not be negative, got {rpc_timeout}")
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """The options of the one back end, which has PyTorch's name and goes over sockets. As many threads as calls are
    under way serve them; `num_worker_threads` are kept when there are fewer. Tensors of calls are in host memory."""

    def __init__(
        self,
        *,
        num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
        device_maps: Mapping[str, Mapping[Any, Any]] | None = None,
        devices: Sequence[Any] | None = None,
        _transports: list | None = None,
        _channels: list | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        if num_worker_threads < 1:
            raise ValueError(f"num_worker_threads must be at least 1, got {num_worker_threads}")
        if _transports is not None or _channels is not None:
            raise NotImplementedError("_transports and _channels choose parts of TensorPipe, which is not used here")
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict[str, dict[Any, Any]] = {}
        self.devices: list[Any] = []
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        self.set_devices(devices or [])

    def set_device_map(self, to: str, device_map: Mapping[Any, Any]) -> None:
        """Which device's tensors go to which of another worker: the CPU's to the CPU."""
        result = {_C.device(mine): _C.device(theirs) for mine, theirs in device_map.items()}
        _check_host([*result, *result.values()], "device_maps")
        self.device_maps.setdefault(to, {}).update(result)

    def set_devices(self, devices: Sequence[Any]) -> None:
        """The devices that calls compute on."""
        self.devices = [_C.device(d) for d in devices]
        _check_host(self.devices, "devices")


def _check_host(devices: Sequence[Any], what: str) -> None:
    other = [str(d) for d in devices if d.type != "cpu"]
    if other:
        raise NotImplementedError(f"{what}: calls carry tensors of the CPU only, got {other}")
