"""`torch.autograd.profiler`: the recording behind `torch.profiler`, by PyTorch's older names.

Enters: a program's `with profile():`, labels, and files of NVIDIA's old profiler. Leaves: events.
"""

from __future__ import annotations

from ..profiler.activities import (  # noqa: F401
    DeviceType,
    ProfilerActivity,
    ProfilerState,
    _ExperimentalConfig,
)
from ..profiler.core_view import (  # noqa: F401 - `torch.autograd` has them too
    _is_kineto_stopped,
    _profiler_enabled,
    _ProfilerResult,
    _record_function_with_args_enter,
    _record_function_with_args_exit,
    _supported_activities,
)
from ..profiler.event_source import EventList
from ..profiler.events import FunctionEvent, MemRecordsAcc
from ..profiler.nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace
from ..profiler.ranges import emit_itt, emit_nvtx
from ..profiler.session import kineto_available, profile  # noqa: F401
from ..profiler.steps import KinetoStepTracker
from .labels import record_function

__all__ = [
    "profile", "record_function", "emit_itt", "emit_nvtx", "load_nvprof", "EnforceUnique", "parse_nvprof_trace",
    "KinetoStepTracker", "EventList", "FunctionEvent", "MemRecordsAcc",
]


def __getattr__(name: str) -> object:
    """`_is_profiler_enabled` is asked of the recorder: it is no value of this module."""
    if name == "_is_profiler_enabled":
        from .. import _extras

        return _extras.profile_is_on()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
