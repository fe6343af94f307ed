"""`torch.Stream` and `torch.Event`: queues of work on a device. The CPU has none, so making one is refused as PyTorch does."""

from __future__ import annotations

from typing import Any


class Stream:
    """A queue of work on an accelerator."""

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        raise RuntimeError(f"Stream: there is no accelerator here whose work could be queued (device={device!r})")


class Event:
    """A point in a queue of work on an accelerator."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        raise RuntimeError(f"Event: there is no accelerator here whose work could be waited for (device={device!r})")
