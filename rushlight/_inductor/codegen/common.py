"""PyTorch's table of code generators by device.

Enters: a device's name and the classes that write loops and wrappers for it in PyTorch's inductor. Leaves: the same,
when asked for. They are taken and kept, and nothing here calls them: our inductor makes loop nests, which a device of
its own is handed one by one (`rushlight.devices.Device.load`), or whole graphs if it wants those; a back end that has
kernels alone (PrivateUse1) runs them one by one in compiled code as in eager code. docs/privateuse1.md says what to
write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "DeviceCodegen", "device_codegens", "get_custom_backend_pass_for_device", "get_scheduling_for_device",
    "get_wrapper_codegen_for_device", "init_backend_registration", "register_backend_for_device",
]


class DeviceCodegen(NamedTuple):
    """What a back end registered for its device."""

    scheduling: Callable[..., Any]
    wrapper_codegen: Callable[..., Any]
    cpp_wrapper_codegen: Callable[..., Any] | None = None
    fx_wrapper_codegen: Callable[..., Any] | None = None


device_codegens: dict[str, DeviceCodegen] = {}
custom_backend_passes: dict[str, Any] = {}
custom_backend_codegen_configs: dict[str, Any] = {}


def register_backend_for_device(device: str, device_scheduling: Callable[..., Any],
                                device_wrapper_codegen: Callable[..., Any],
                                device_cpp_wrapper_codegen: Callable[..., Any] | None = None,
                                device_fx_wrapper_codegen: Callable[..., Any] | None = None,
                                device_custom_pass: Any = None, device_custom_config: Any = None) -> None:
    """Keep the code generators of a device."""
    device_codegens[device] = DeviceCodegen(
        device_scheduling, device_wrapper_codegen, device_cpp_wrapper_codegen, device_fx_wrapper_codegen)
    custom_backend_passes[device] = device_custom_pass
    custom_backend_codegen_configs[device] = device_custom_config


def init_backend_registration() -> None:
    """There are none of our own: devices are handed loop nests."""


def get_scheduling_for_device(device: str) -> Callable[..., Any] | None:
    """The class that a back end registered for loops on its device; None where there is none."""
    return device_codegens[device].scheduling if device in device_codegens else None


def get_wrapper_codegen_for_device(device: str, cpp_wrapper: bool = False, fx_wrapper: bool = False
                                   ) -> Callable[..., Any] | None:
    """The class that a back end registered for the code around its kernels; None where there is none."""
    if device not in device_codegens:
        return None
    known = device_codegens[device]
    return known.fx_wrapper_codegen if fx_wrapper else known.cpp_wrapper_codegen if cpp_wrapper \
        else known.wrapper_codegen


def get_custom_backend_pass_for_device(device: str) -> Any:
    """The pass over graphs that a back end registered; None where there is none."""
    return custom_backend_passes.get(device)
