"""The accelerator of this machine, in PyTorch's words: the plugged-in device that says `accelerator = True`,
if there is one.

Without one questions have plain answers, and using it is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from importlib import import_module
from types import ModuleType
from typing import Any

from . import _C, devices
from ._C import device as Device
from .base.refusals import stand_in
from .devices import find_accelerator, handlers, private_use, set_unit
from .torch_names.streams import Stream

Graph = stand_in("torch.accelerator", "Graph")

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
]


class _Private:
    """PyTorch's device of others as the accelerator: a back end in Python has one unit, and no streams."""

    def __init__(self) -> None:
        self.name = private_use.state.name

    def device_count(self) -> int:
        hook = private_use.state.hook
        return int(hook is not None and bool(hook.is_available()))


def _handler() -> Any:
    return _Private() if private_use.state.hook is not None else find_accelerator()


def _unit(name: str, device: Any = None) -> Any:
    """The unit that is meant: by its number, a device, or None for the current one."""
    handler = _handler()
    if handler is None:
        raise RuntimeError(f"accelerator.{name}: Cannot access accelerator device when none is available.")
    if device is None or isinstance(device, int):
        return Device(handler.name, _current(handler) if device is None else device)
    chosen = Device(device)
    if chosen.type != handler.name:
        raise ValueError(f"accelerator.{name}: {chosen.type} doesn't match the current accelerator {handler.name}.")
    return chosen if chosen.index is not None else Device(chosen.type, _current(handler))


def _current(handler: Any) -> int:
    return 0 if isinstance(handler, _Private) else _C.current_unit(handler.name)


def is_available() -> bool:
    """Whether there is one with at least one unit."""
    return device_count() > 0


def device_count() -> int:
    """How many units it has."""
    handler = _handler()
    return handler.device_count() if handler is not None else 0


def current_accelerator(check_available: bool = False) -> Any:
    """The kind of device, without an index; None where there is none."""
    handler = _handler()
    return Device(handler.name) if handler is not None and (not check_available or is_available()) else None


def current_device_index() -> int:
    """This thread's current unit."""
    return _unit("current_device_index").index


def set_device_index(device: Any, /) -> None:
    """Make a unit this thread's current one; a negative number changes nothing."""
    if not isinstance(device, int) or device >= 0:
        unit = _unit("set_device_index", device)
        if not private_use.is_private(unit):
            set_unit(unit)


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device: Any = None, /) -> Stream:
    """This thread's current stream on a unit."""
    unit = _unit("current_stream", device)
    if private_use.is_private(unit):
        return Stream(unit, stream_id=0)
    return Stream(unit, stream_id=_C.current_stream(unit))


def set_stream(stream: Stream) -> None:
    """Make a stream this thread's current one, and its unit too."""
    _unit("set_stream", stream.device)
    set_unit(stream.device)
    _C.set_stream(stream.device, stream.stream_id)


def synchronize(device: Any = None, /) -> None:
    """Wait for all streams of a unit; then raise what checks on the device found."""
    unit = _unit("synchronize", device)
    if private_use.is_private(unit):
        raise RuntimeError(f"accelerator.synchronize: the back end of '{unit}' has no streams that could be waited for")
    _C.synchronize(unit)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What the unit can compute with: the types that kernels are generated for."""
    _unit("get_device_capability", device)
    types = [d for d in vars(_C).values() if isinstance(d, _C.dtype)]
    return {
        "supported_dtypes": {d for d in types if d.code[0] in "bucif" and not d.code.startswith(("bits", "f4", "f8e8"))}
    }


def get_memory_info(device: Any = None, /) -> tuple[int, int]:
    """Bytes free and bytes in all on a unit."""
    unit = _unit("get_memory_info", device)
    asked = getattr(handlers[unit.type], "memory_info", None)
    if asked is None:
        raise RuntimeError(
            f"accelerator.get_memory_info: device '{unit.type}' does not say how much memory it has. Provide"
            " Device.memory_info(index)."
        )
    return asked(unit.index)


def memory_stats(device: Any = None, /) -> OrderedDict[str, Any]:
    """What the caching allocator holds."""
    return devices.memory_stats(_unit("memory_stats", device))


def memory_allocated(device: Any = None, /) -> int:
    """Bytes that tensors use."""
    return memory_stats(_unit("memory_allocated", device))["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None, /) -> int:
    """The most bytes that tensors used."""
    return memory_stats(_unit("max_memory_allocated", device))["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None, /) -> int:
    """Bytes held from the device."""
    return memory_stats(_unit("memory_reserved", device))["reserved_bytes.all.current"]


def max_memory_reserved(device: Any = None, /) -> int:
    """The most bytes held from the device."""
    return memory_stats(_unit("max_memory_reserved", device))["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Any = None, /) -> None:
    """Peaks start anew from what is in use now."""
    devices.reset_peak_memory_stats(_unit("reset_peak_memory_stats", device))


def reset_accumulated_memory_stats(device: Any = None, /) -> None:
    """Refused: what was allocated in all is not counted anew."""
    unit = _unit("reset_accumulated_memory_stats", device)
    raise RuntimeError(
        f"accelerator.reset_accumulated_memory_stats: the totals of '{unit}' cannot be reset. Subtract an earlier"
        " memory_stats()."
    )


def empty_cache() -> None:
    """Give memory that no tensor uses back to the accelerator's units."""
    handler = _handler()
    for index in range(device_count()):
        devices.empty_cache(Device(handler.name, index))


def empty_host_cache() -> None:
    """Nothing is kept: copies do not go through memory of the host's own."""


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device, `torch.cpu` for "cpu"; of the accelerator, or of the processor where there is none,
    when not told."""
    if device is not None and not isinstance(device, (str, Device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if device is None:
        own = current_accelerator() if private_use.state.hook is not None else None
        name = "cpu" if own is None else own.type
    else:
        name = Device(device).type
    if name in private_use.modules:
        return private_use.modules[name]
    try:
        return import_module(f".{name}", __package__)
    except ModuleNotFoundError:
        raise RuntimeError(f"device '{name}' has no module 'torch.{name}'. Register one with it.") from None


_register_device_module = private_use.register_module


class device_index:  # noqa: N801 - PyTorch's name
    """A region on one of several units; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.outside: list[int] = []

    def __enter__(self) -> None:
        if self.idx is not None:
            self.outside.append(current_device_index())
            set_device_index(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx is not None:
            set_device_index(self.outside.pop())
