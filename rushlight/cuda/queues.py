"""`torch.cuda.Stream`, `ExternalStream` and `Event`."""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base import late
from ..torch_names import streams as _streams
from .units import unit_of


def found() -> Any:
    """The CUDA device, or None."""
    return late.provided("cuda device")()


class Stream(_streams.Stream):
    """A queue of work on a CUDA device; `with cuda.stream(s):` makes it the current one."""

    def __init__(self, device: Any = None, priority: int = 0, **given: Any) -> None:
        if found() is None:
            why = late.provided("why no cuda")()
            raise RuntimeError(
                f"cuda.Stream: there is no CUDA device here whose work could be queued ({why})."
                " Ask cuda.is_available() first."
            )
        super().__init__(unit_of(device), priority=priority, **given)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return _C.stream_handle(self.device, self.stream_id)

    native_handle = _as_parameter_ = cuda_stream


class ExternalStream(Stream):
    """A queue that somebody else made, by the driver's handle; it must live as long as this does."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        if found() is None:
            raise RuntimeError("cuda.ExternalStream: there is no CUDA device here whose work could be queued")
        unit = unit_of(device)
        super().__init__(unit, stream_id=_C.external_stream(unit, int(stream_ptr)))


class Event(_streams.Event):
    """A mark in a queue of work on a CUDA device."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if found() is None:
            raise RuntimeError(
                "cuda.Event: there is no CUDA device here whose work could be marked. Ask cuda.is_available() first."
            )
        super().__init__(
            unit_of(None), enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )
