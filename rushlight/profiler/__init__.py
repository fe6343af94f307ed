"""`torch.profiler`: where time and memory go. Recordings by steps, their events, averages, tables and traces.

What is recorded is written by csrc/profile.cpp; everything here reads it afterwards.
"""

from __future__ import annotations

from ..autograd.labels import record_function as record_function
from . import itt as itt
from .activities import (
    DeviceType as DeviceType,
    ProfilerActivity as ProfilerActivity,
    RecordScope as RecordScope,
    _ExperimentalConfig as _ExperimentalConfig,
)
from .profiler import (
    ExecutionTraceObserver as ExecutionTraceObserver,
    _KinetoProfile as _KinetoProfile,
    profile as profile,
    supported_activities as supported_activities,
    tensorboard_trace_handler as tensorboard_trace_handler,
)
from .schedules import ProfilerAction as ProfilerAction, schedule as schedule
from .session import kineto_available as kineto_available
from .steps import KinetoStepTracker as KinetoStepTracker

__all__ = [
    "profile", "schedule", "supported_activities", "tensorboard_trace_handler", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "DeviceType", "record_function", "ExecutionTraceObserver",
]
