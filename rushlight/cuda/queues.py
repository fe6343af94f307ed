"""`torch.cuda.Stream`, `ExternalStream` and `Event`."""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base import late
from ..devices.cuda import ipc
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
        super().__init__(unit_of(None), enable_timing=enable_timing, blocking=blocking)
        if interprocess and enable_timing:
            raise RuntimeError("cuda.Event: an event for other processes takes no times: leave enable_timing at False")
        self._shared: ipc.SharedEvent | None = ipc.SharedEvent(self.device.index) if interprocess else None

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """The event of another process that has this handle there."""
        result = cls()
        result.device = unit_of(device)
        result._shared, result._is_recorded = ipc.SharedEvent(result.device.index, handle), True
        return result

    def ipc_handle(self) -> bytes:
        """What names the event in another process; only with `interprocess=True`."""
        if self._shared is None:
            raise RuntimeError("cuda.Event.ipc_handle: make the event with interprocess=True")
        return self._shared.handle()

    def __reduce__(self) -> tuple:
        if self._shared is None:
            raise TypeError("cuda.Event: only events made with interprocess=True can be sent to another process")
        return rebuild_event, (self.device.index, self.ipc_handle())

    def _recorded(self, stream: Any) -> Event:
        if self._shared is None:
            return super()._recorded(stream)
        if stream.device != self.device:
            raise RuntimeError(f"cuda.Event: of device '{self.device}', recorded on a stream of '{stream.device}'")
        self._shared.record(_C.stream_handle(stream.device, stream.stream_id))
        self._is_recorded = True
        return self

    def wait(self, stream: Any = None) -> None:
        """What a stream, the current one unless told, gets from now on runs after the mark."""
        if self._shared is None:
            super().wait(stream)
        else:
            self._shared.wait(_C.stream_handle(self.device, -1 if stream is None else stream.stream_id))

    def query(self) -> bool:
        """Whether the mark is reached."""
        return super().query() if self._shared is None else self._shared.query()

    def synchronize(self) -> None:
        """Return when the mark is reached."""
        super().synchronize() if self._shared is None else self._shared.synchronize()


def rebuild_event(device: int, handle: bytes) -> Event:
    """An event that another process sent."""
    return Event.from_ipc_handle(device, handle)
