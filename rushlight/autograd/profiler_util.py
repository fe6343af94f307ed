"""`torch.autograd.profiler_util`: events, their averages, and lists of them that show themselves as tables."""

from __future__ import annotations

from ..profiler.activities import DeviceType  # noqa: F401
from ..profiler.event_source import EventList
from ..profiler.events import (
    MEMORY_EVENT_NAME as MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME as OUT_OF_MEMORY_EVENT_NAME,
    EventMetadata,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)
from ..profiler.units import (  # noqa: F401 - private names that programs take
    memory_text as _format_memory,
    share_text as _format_time_share,
    time_text as _format_time,
)

__all__ = [
    "EventList", "EventMetadata", "FormattedTimesMixin", "Interval", "Kernel", "FunctionEvent", "FunctionEventAvg",
    "StringTable", "MemRecordsAcc",
]
