"""The CPU as a device: what PyTorch programs ask of `torch.cpu`. Calls have finished when they return,
so nothing waits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = [
    "Stream", "StreamContext", "current_device", "current_stream", "device_count", "get_capabilities", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]


class Stream:
    """The only queue of work there is; it is always empty."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point in a queue that is always reached."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_current = Stream()


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Return: calls have finished when they return."""


def current_device() -> str:
    """"cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one CPU; nothing to choose."""


def device_count() -> int:
    """1."""
    return 1


def current_stream(device: Any = None) -> Stream:
    """The only queue of work."""
    return _current


class StreamContext(contextlib.AbstractContextManager):
    """A region that runs on a stream: any stream is the same one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __exit__(self, *exc: object) -> None:
        return None


def stream(stream: Stream | None) -> StreamContext:
    """A region that runs on `stream`."""
    return StreamContext(stream)


def get_capabilities() -> dict[str, Any]:
    """What the processor can do, by PyTorch's names for the features of its architecture."""
    import platform  # noqa: PLC0415 - slow to load

    machine = platform.machine()
    return {
        "architecture": (
            "arm64" if machine in ("aarch64", "arm64") else "x86_64" if machine in ("x86_64", "AMD64") else machine
        ),
        **_features(),
    }


def _features() -> dict[str, bool]:
    flags = set(_read_flags())
    return {
        name: name in flags
        for name in ("avx2", "avx512f", "avx512_vnni", "amx_bf16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve")
    }


def _read_flags() -> Iterator[str]:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.lower().startswith(("flags", "features")):
                yield from line.partition(":")[2].split()
                return


def _is_avx2_supported() -> bool:
    return "avx2" in set(_read_flags())


def _is_avx512_supported() -> bool:
    return "avx512f" in set(_read_flags())


def _is_vnni_supported() -> bool:
    return "avx512_vnni" in set(_read_flags())


def _is_amx_tile_supported() -> bool:
    return "amx_tile" in set(_read_flags())


def __getattr__(name: str) -> object:
    if name == "amp":
        import importlib  # noqa: PLC0415

        return importlib.import_module(".amp", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
