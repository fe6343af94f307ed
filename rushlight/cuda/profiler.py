"""`torch.cuda.profiler`: tells NVIDIA's profilers when to look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .no_device import _no_device, found

__all__ = ["profile", "start", "stop"]


def _tell(name: str, what: str) -> None:
    device = found()
    if device is None:
        _no_device(f"profiler.{what}")
    device.driver.call(name)


def start() -> None:
    """A profiler that waits for it starts to record."""
    _tell("cuProfilerStart", "start")


def stop() -> None:
    """It stops."""
    _tell("cuProfilerStop", "stop")


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """It records within the block."""
    start()
    try:
        yield
    finally:
        stop()
