"""torch._lazy.device_context: what belongs to one device."""

from __future__ import annotations

import threading


class DeviceContext:
    """One device's own things: what asynchronous step closures use."""

    def __init__(self, device: str) -> None:
        self.device = device


_contexts: dict[str, DeviceContext] = {}
_guard = threading.Lock()


def get_device_context(device: str | None = None) -> DeviceContext:
    """The context of a device, "lazy:0" unless told; made when it is first asked for."""
    name = "lazy:0" if device is None else str(device)
    with _guard:
        return _contexts.setdefault(name, DeviceContext(name))
