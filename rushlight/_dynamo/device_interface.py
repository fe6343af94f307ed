"""PyTorch's `torch._dynamo.device_interface`: what a compiler may ask of a type of device, by a class of its own.

Enters: classes derived from `DeviceInterface`, by the name of a device. Leaves: the same, when asked for. Refuses:
names nobody registered. Our compiler asks the device itself (`rushlight.devices`), so that registering one here is for
programs that read the table; a back end's ops run one by one through its kernels in compiled code too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from .. import _C, accelerator, cpu
from ..devices import find

__all__ = [
    "CpuInterface", "CudaInterface", "DeviceGuard", "DeviceInterface", "get_interface_for_device",
    "get_registered_device_interfaces", "init_device_reg", "register_interface_for_device",
]


class DeviceInterface:
    """What there is to ask; a class says what its device can answer."""

    class Event:
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError("Event: this device's interface has none")

    class Stream:
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError("Stream: this device's interface has none")

    class Worker:
        """What processes that compile ask."""

        @staticmethod
        def set_device(device: int) -> None:
            raise NotImplementedError

        @staticmethod
        def current_device() -> int:
            raise NotImplementedError

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            raise NotImplementedError

    @staticmethod
    def current_device() -> int:
        raise NotImplementedError

    @staticmethod
    def set_device(device: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        raise NotImplementedError

    @staticmethod
    def exchange_device(device: int) -> int:
        raise NotImplementedError

    @staticmethod
    def device_count() -> int:
        raise NotImplementedError

    @staticmethod
    def is_available() -> bool:
        raise NotImplementedError

    @staticmethod
    def stream(stream: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def current_stream() -> Any:
        raise NotImplementedError

    @staticmethod
    def set_stream(stream: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        raise NotImplementedError

    @staticmethod
    def synchronize(device: Any = None) -> None:
        raise NotImplementedError

    @classmethod
    def get_device_properties(cls, device: Any = None) -> Any:
        return cls.Worker.get_device_properties(device)

    @staticmethod
    def get_compute_capability(device: Any = None) -> Any:
        raise NotImplementedError

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        raise NotImplementedError

    @classmethod
    def is_dtype_supported(cls, dtype: _C.dtype, including_emulation: bool = False) -> bool:
        return dtype is not _C.bfloat16 or cls.is_bf16_supported(including_emulation)

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        raise NotImplementedError

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        """Kernels are not written in Triton here."""
        return False

    @classmethod
    def raise_if_triton_unavailable(cls, device: Any = None) -> None:
        if not cls.is_triton_capable(device):
            raise RuntimeError(f"{cls.__name__}: the device has no Triton")


class DeviceGuard:
    """A region on one unit of a device."""

    def __init__(self, device_interface: type[DeviceInterface], index: int | None) -> None:
        self.device_interface, self.idx, self.prev_idx = device_interface, index, -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = self.device_interface.exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> Literal[False]:
        if self.idx is not None:
            self.idx = self.device_interface.maybe_exchange_device(self.prev_idx)
        return False


class CpuInterface(DeviceInterface):
    """The host."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return 0

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return ""

    @staticmethod
    def synchronize(device: Any = None) -> None:
        cpu.synchronize()


class CudaInterface(DeviceInterface):
    """NVIDIA GPUs, where there is one."""

    @staticmethod
    def is_available() -> bool:
        return bool(find("cuda"))

    @staticmethod
    def device_count() -> int:
        return accelerator.device_count() if find("cuda") else 0


device_interfaces: dict[str, type[DeviceInterface]] = {"cpu": CpuInterface, "cuda": CudaInterface}


def init_device_reg() -> None:
    """Our own are in the table from the start."""


def register_interface_for_device(device: str | _C.device, device_interface: type[DeviceInterface]) -> None:
    """File the interface of a type of device, in place of one that is there."""
    device_interfaces[device.type if isinstance(device, _C.device) else device] = device_interface


def get_interface_for_device(device: str | _C.device) -> type[DeviceInterface]:
    """The interface of a type of device."""
    name = device.type if isinstance(device, _C.device) else device
    if name not in device_interfaces:
        raise NotImplementedError(f"No interface for device {name}: register_interface_for_device files one")
    return device_interfaces[name]


def get_registered_device_interfaces() -> Iterable[tuple[str, type[DeviceInterface]]]:
    """All of them, by name."""
    return device_interfaces.items()
