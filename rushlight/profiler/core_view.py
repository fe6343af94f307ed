"""What `torch._C._profiler` and `torch._C._autograd` have of the profiler, for programs that take it from there.

Enters: a name. Leaves: its counterpart. Anything else is an AttributeError, as of any module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _extras
from .activities import (
    ActiveProfilerType,
    DeviceType,
    Kind,
    ProfilerActivity,
    ProfilerState,
    RecordScope,
    _ExperimentalConfig,
)
from .profiler import supported_activities
from .session import Result, kineto_available


class _RecordFunctionFast:
    """A label without more: what compiled code marks its stretches with."""

    def __init__(
        self, name: str, input_values: Sequence[Any] | None = None, keyword_values: Mapping[str, Any] | None = None
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"_RecordFunctionFast: name must be a str, got {name!r}")
        if not isinstance(input_values, (list, tuple, type(None))):
            raise TypeError(f"_RecordFunctionFast: input_values must be a list or a tuple, got {input_values!r}")
        if not isinstance(keyword_values, (dict, type(None))):
            raise TypeError(f"_RecordFunctionFast: keyword_values must be a dict, got {keyword_values!r}")
        self._name, self._handle = name, 0

    def __enter__(self) -> None:
        self._handle = _extras.record_begin(self._name, None, int(Kind.REGION))

    def __exit__(self, *error: object) -> None:
        if self._handle:
            _extras.record_end(self._handle)


def _profiler_enabled() -> bool:
    """Whether something is being recorded."""
    return _extras.profile_is_on()


def _profiler_type() -> ActiveProfilerType:
    """Which profiler runs."""
    return ActiveProfilerType.KINETO if _extras.profile_is_on() else ActiveProfilerType.NONE


def _is_kineto_stopped() -> bool:
    """A device's recording never ends before the host's here."""
    return False


def _record_function_with_args_enter(name: str, *args: Any) -> int:
    """Begin a label; its handle."""
    return _extras.record_begin(name)


def _record_function_with_args_exit(handle: int) -> None:
    """End a label."""
    if handle:
        _extras.record_end(handle)


_supported_activities = supported_activities
_ProfilerResult = Result

PROFILER = {
    "ActiveProfilerType": ActiveProfilerType, "ProfilerActivity": ProfilerActivity, "ProfilerState": ProfilerState,
    "RecordScope": RecordScope, "_ExperimentalConfig": _ExperimentalConfig, "_RecordFunctionFast": _RecordFunctionFast,
    "_get_approximate_time": _extras.profile_now,
}
AUTOGRAD = {
    "DeviceType": DeviceType, "_ProfilerResult": _ProfilerResult, "_is_kineto_stopped": _is_kineto_stopped,
    "_profiler_enabled": _profiler_enabled, "_profiler_type": _profiler_type,
    "_record_function_with_args_enter": _record_function_with_args_enter,
    "_record_function_with_args_exit": _record_function_with_args_exit,
    "_supported_activities": _supported_activities, "kineto_available": kineto_available,
}
