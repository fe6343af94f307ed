"""`torch.Stream` and `torch.Event`: queues of work on a device, and marks in them. The CPU has none,
so making one for it is refused.

A device that has one queue per unit answers too: all its streams are that queue, and every mark is reached.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..devices import find_accelerator, handlers, set_unit


def accelerator_device(device: Any, what: str) -> Any:
    """The unit that is meant by a device, its number, or None: of the accelerator, and its current unit,
    unless told."""
    if device is None or isinstance(device, int):
        handler = find_accelerator()
        if handler is None:
            raise RuntimeError(f"{what}: there is no accelerator here whose work could be queued (device={device!r})")
        return _C.device(handler.name, _C.current_unit(handler.name) if device is None else device)
    chosen = _C.device(device)
    if chosen.type in ("cpu", "meta"):
        raise RuntimeError(f"{what}: device '{chosen}' has no queues of work (device={device!r})")
    handlers[chosen.type]   # refuses a device that is not there
    return chosen if chosen.index is not None else _C.device(chosen.type, _C.current_unit(chosen.type))


class Stream:
    """A queue of work on an accelerator; `with stream:` makes it the current one, and its device too."""

    def __init__(self, device: Any = None, *, priority: int = 0, stream_id: int | None = None) -> None:
        self.device = accelerator_device(device, "Stream")
        self.device_type, self.device_index = _C.device_types().index(self.device.type), self.device.index
        self.stream_id = _C.new_stream(self.device, priority) if stream_id is None else stream_id
        self._outside: list[tuple[int, int]] = []

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, for a stream of a CUDA device: `cuda.current_stream()` gives such a one, too."""
        return _C.stream_handle(self.device, self.stream_id)

    def query(self) -> bool:
        """Whether everything queued is done."""
        return _C.query_stream(self.device, self.stream_id)

    def synchronize(self) -> None:
        """Wait for everything queued; then raise what its checks found (an index out of range, a division by 0)."""
        _C.synchronize(self.device, self.stream_id)

    def record_event(self, event: Event | None = None) -> Event:
        """A mark behind what is queued now."""
        return (event or Event(self.device))._recorded(self)

    def wait_event(self, event: Event) -> None:
        """What is queued here from now on runs after the mark."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What is queued here from now on runs after what is queued there now."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        kind = self.device.type
        self._outside.append((_C.current_unit(kind), _C.current_stream(self.device)))
        set_unit(self.device)
        _C.set_stream(self.device, self.stream_id)
        return self

    def __exit__(self, *exc: object) -> None:
        unit, stream = self._outside.pop()
        _C.set_stream(self.device, stream)
        set_unit(_C.device(self.device.type, unit))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"<Stream device={self.device} stream_id={self.stream_id}>"


class Event:
    """A point in a queue of work on an accelerator."""

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = accelerator_device(device, "Event")
        if interprocess:
            raise RuntimeError("Event: events cannot be shared between processes. Leave interprocess at False.")
        self._timed, self._mark, self._is_recorded = enable_timing, None, False

    def _recorded(self, stream: Stream) -> Event:
        self._mark, self._is_recorded = _C.record_event(stream.device, stream.stream_id), True
        self.device = stream.device
        return self

    def record(self, stream: Stream | None = None) -> None:
        """Mark the end of what is queued now on a stream, the current one unless told."""
        self._recorded(stream or Stream(self.device, stream_id=_C.current_stream(self.device)))

    def wait(self, stream: Stream | None = None) -> None:
        """What a stream, the current one unless told, gets from now on runs after the mark;
        one that was never recorded is no mark."""
        if self._mark is not None:
            stream = stream or Stream(self.device, stream_id=_C.current_stream(self.device))
            _C.wait_event(stream.device, stream.stream_id, self._mark)

    def query(self) -> bool:
        """Whether the mark is reached."""
        return self._mark is None or _C.query_event(self._mark)

    def synchronize(self) -> None:
        """Return when the mark is reached."""
        if self._mark is not None:
            _C.finish_event(self._mark)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another; both must have been made with enable_timing."""
        for event in (self, end_event):
            if not event._timed or not event._is_recorded:
                raise RuntimeError(
                    "Event.elapsed_time: both events must be made with enable_timing=True and be recorded first"
                )
        if self._mark is None or end_event._mark is None:
            raise RuntimeError(f"Event.elapsed_time: device '{self.device}' measures no time")
        return _C.elapsed_time(self._mark, end_event._mark)
