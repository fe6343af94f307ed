"""`torch.autograd.profiler.profile`: one recording, from the moment it is entered to the moment it is left.

Enters: what to write down. Leaves: events, averages, tables, traces and stacks of what ran meanwhile. Refuses: a
recording while another runs, and to enter one object twice (RuntimeError); to profile nothing at all, and devices that
PyTorch does not profile in this way (AssertionError). The recorder itself is csrc/profile.cpp.
"""

from __future__ import annotations

import copy
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .. import _extras
from . import names, trace
from .activities import ProfilerActivity, ProfilerState, _ExperimentalConfig
from .event_source import EventList, EventSource
from .events import FunctionEventAvg
from .owners import Owners
from .recording import Log
from .watchers import Watcher, device_watcher, is_available

SHAPES, MEMORY, STACK, MODULES, ALL_THREADS, KERNELS = 1, 2, 4, 8, 16, 32
UNFINISHED = "<unfinished torch.autograd.profile>"
ACTIVITY_NAMES = {
    ProfilerActivity.CPU: {"CPU_OP", "USER_ANNOTATION", "EXTERNAL_CORRELATION", "CPU_INSTANT_EVENT",
                           "PYTHON_FUNCTION"},
    ProfilerActivity.CUDA: {"GPU_MEMCPY", "GPU_MEMSET", "CONCURRENT_KERNEL", "CUDA_RUNTIME", "CUDA_DRIVER",
                            "CUDA_SYNC", "CUDA_EVENT", "GPU_USER_ANNOTATION", "OVERHEAD", "CUDA_PROFILER_RANGE"},
}


@dataclass
class ProfilerStats:
    """How long the profiler itself took, for those who work on it."""

    profiling_window_duration_sec: float = 0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


class Result:
    """What a recording left behind: the events by row, and the trace."""

    def __init__(self, source: EventSource, trace_id: str) -> None:
        self._source, self._trace_id = source, trace_id

    def save(self, path: str, metadata: dict[str, str] | None = None) -> None:
        """Write the trace."""
        trace.write(self._source, path, metadata or {}, self._trace_id)

    def trace_start_ns(self) -> int:
        """When the recording began, by the wall clock."""
        return self._source.log.base[1]

    def events(self) -> EventList:
        """All events."""
        return self._source.events()


class profile:  # noqa: N801 - PyTorch's name
    """Records the ops that run within its `with`, and answers for them afterwards.

    `record_shapes` writes down the sizes, types and values of arguments, `profile_memory` what is allocated and freed,
    `with_stack` and `with_modules` the frames around calls, `with_flops` counts operations (and records shapes).
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: _ExperimentalConfig | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: dict[ProfilerActivity, set[str]] | None = None,
    ) -> None:
        self.enabled = enabled
        if not enabled:
            return
        self.use_cuda = use_cuda
        if use_cuda:
            warnings.warn("autograd.profiler.profile: use_cuda is an old name; write use_device='cuda'", FutureWarning,
                          stacklevel=2)
            use_device = "cuda"
        self.record_shapes, self.with_flops = record_shapes or with_flops, with_flops
        self.profile_memory, self.with_stack, self.with_modules = profile_memory, with_stack, with_modules
        self.use_cpu, self.acc_events = use_cpu, acc_events
        self.experimental_config = without_trace_only(experimental_config or _ExperimentalConfig(), with_stack)
        self.experimental_config.check_built()
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.activity_filters = activity_filters or {}
        self.trace_id = ""
        self.entered = False
        self.kineto_results: Result | None = None
        self.profiling_start_time_ns = self.profiling_end_time_ns = 0
        self._stats = ProfilerStats()
        self._source: EventSource | None = None
        self._events: EventList | None = None
        self._earlier: list[Any] = []            # events of cycles before, with acc_events
        self._running = False
        self._watcher: Watcher | None = None
        if not use_cpu and not use_kineto:
            raise AssertionError("profile: a device alone is profiled with use_kineto=True only, got use_cpu=False")
        self.use_device = self._usable_device(use_device, use_kineto)
        self.kineto_activities = ({ProfilerActivity.CPU} if use_cpu else set()) | (
            {ProfilerActivity.CUDA} if self.use_device == "cuda" else set()
        )
        self.profiler_kind = ProfilerState.KINETO
        if not self.kineto_activities:
            raise AssertionError("No activities specified for the profiler")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError(
                f"post_processing_timeout_s must be non-negative, got {post_processing_timeout_s}"
            )

    def _usable_device(self, device: str | None, use_kineto: bool) -> str | None:
        """The device that will be watched; warns where it cannot be, as PyTorch does."""
        if device is None:
            return None
        if device == "mtia":
            raise AssertionError(
                "Legacy MTIA profiling is not supported. Requires use_kineto=True on MTIA devices."
                if not use_kineto else "profile: there is no MTIA device here to watch"
            )
        if device not in ("cuda", "xpu", "hpu"):
            warnings.warn(f"The {device} is not a valid device option.", stacklevel=3)
            return None
        if not is_available(device):
            name = device.upper()
            warnings.warn(f"{name} is not available, disabling {name} profiling", stacklevel=3)
            self.use_cuda = False
            return None
        return device

    def default_trace_id(self) -> str:
        """A name for a trace that no other has."""
        return f"{uuid.uuid4().int:032X}"

    def create_trace_id(self) -> str:
        """The name of the next trace: the program's, if it gives them."""
        return self.custom_trace_id_callback() if self.custom_trace_id_callback else self.default_trace_id()

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def _prepare_trace(self) -> None:
        begun = time.perf_counter_ns()
        self.entered = True
        names.prepare()
        self.trace_id = self.create_trace_id()
        for activity, parts in self.activity_filters.items():
            unknown = sorted(set(parts) - ACTIVITY_NAMES.get(activity, set()))
            if unknown:
                raise RuntimeError(f"Unknown or non-member activity type name: {unknown[0]!r} of {activity}")
        self._stats.profiler_prepare_call_duration_us = (time.perf_counter_ns() - begun) // 1000

    def _flags(self) -> int:
        config = self.experimental_config
        return (
            SHAPES * self.record_shapes | MEMORY * self.profile_memory | STACK * self.with_stack
            | MODULES * self.with_modules | ALL_THREADS * config.profile_all_threads
            | KERNELS * config.profiler_measure_per_kernel
        )

    def _start_trace(self) -> None:
        self.entered = True
        begun = time.perf_counter_ns()
        self.abandon()
        _extras.profile_start(self._flags())
        self._running = True
        self._watcher = device_watcher(self.use_device, self.experimental_config, self.activity_filters)
        self.profiling_start_time_ns = time.perf_counter_ns()
        self._stats.profiler_enable_call_duration_us = (self.profiling_start_time_ns - begun) // 1000

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool | None:
        if not self.enabled:
            return None
        if not self._running:
            # stopped without having been started, or a second time: nothing was recorded since
            return False
        self.profiling_end_time_ns = time.perf_counter_ns()
        self._running = False
        if self._watcher is not None:
            self._watcher.synchronize()
        if self.acc_events and self._events:
            self._earlier = list(self._events)
        recording = _extras.profile_stop()
        if self._watcher is not None:
            self._watcher.stop(recording)
            self._watcher = None
        log = Log(recording, with_host=self.use_cpu)
        config = self.experimental_config
        self._source = EventSource(log, self.use_device, self.profile_memory, self.with_flops,
                                   config.verbose and self.with_stack, config.capture_overload_names,
                                   Owners.found() if self._flags() & 7 == SHAPES | MEMORY | STACK else None)
        self._events = None
        self.kineto_results = Result(self._source, self.trace_id)
        self._warn_of_dropped(log)
        stats = self._stats
        stats.profiler_disable_call_duration_us = (time.perf_counter_ns() - self.profiling_end_time_ns) // 1000
        stats.profiling_window_duration_sec = (self.profiling_end_time_ns - self.profiling_start_time_ns) / 1e9
        if self.acc_events and not config.trace_only:
            self._ensure_function_events()
        return False

    def abandon(self) -> None:
        """End a recording that runs, without keeping it: the program begins another."""
        if self._running:
            self._running = False
            recording = _extras.profile_stop()
            if self._watcher is not None:
                self._watcher.stop(recording)

    @staticmethod
    def _warn_of_dropped(log: Log) -> None:
        if log.dropped:
            warnings.warn(f"the profiler's limit was reached: {log.dropped} events are missing. Record fewer steps "
                          "(profiler.schedule), or set RUSHLIGHT_PROFILE_LIMIT to more", stacklevel=4)

    def _ensure_function_events(self) -> EventList:
        if self.experimental_config.trace_only:
            raise RuntimeError("events(): this profile was asked for a trace alone (trace_only=True); write it with "
                               "export_chrome_trace()")
        if self._events is None:
            begun = time.perf_counter_ns()
            if self._source is None:
                events = EventList(use_device=self.use_device, profile_memory=self.profile_memory,
                                   with_flops=self.with_flops)
                events._tree_built = True
                return events
            self._events = self._source.events(self.post_processing_timeout_s)
            self._stats.parse_kineto_call_duration_us = (time.perf_counter_ns() - begun) // 1000
            self._stats.number_of_events = len(self._events)
            self._events += self._earlier
            self._earlier = []
        return self._events

    @property
    def function_events(self) -> EventList:
        """All events, in the order in which they began."""
        return self._ensure_function_events()

    def __repr__(self) -> str:
        return UNFINISHED if self._source is None else repr(self.function_events)

    def __str__(self) -> str:
        return UNFINISHED if self._source is None else str(self.function_events)

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int | None = 75,
              max_name_column_width: int | None = 55, max_shapes_column_width: int | None = 80,
              header: str | None = None, top_level_events_only: bool = False) -> str:
        """All events as a table: `EventList.table`."""
        return self.function_events.table(sort_by, row_limit, max_src_column_width, max_name_column_width,
                                          max_shapes_column_width, header, top_level_events_only)

    def export_chrome_trace(self, path: str, metadata: dict[str, str] | None = None,
                            use_python_export: bool = False) -> None:
        """The trace as JSON, compressed where `path` ends in `.gz`; `use_python_export` makes no difference here."""
        if self.kineto_results is None:
            raise AssertionError("export_chrome_trace: nothing was recorded yet")
        self.kineto_results.save(path, metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Stacks with what they weigh, for flame graphs: `EventList.export_stacks`."""
        events = self.function_events
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Pause, or go on with, the recording of these activities. Refuses others (RuntimeError)."""
        chosen = set(activities)
        if not self._running:
            return
        if ProfilerActivity.CPU in chosen:
            _extras.profile_toggle(bool(enabled))
        if ProfilerActivity.CUDA in chosen and self._watcher is not None:
            self._watcher.toggle(bool(enabled))

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """Events of one name added up: `EventList.key_averages`."""
        if (self._source is None or self.acc_events or self.post_processing_timeout_s is not None
                or self.experimental_config.trace_only):
            return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)
        return self._source.averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the CPU of all events."""
        return self.function_events.self_cpu_time_total


def without_trace_only(config: _ExperimentalConfig, with_stack: bool) -> _ExperimentalConfig:
    """The configuration, without `trace_only` where stacks, which need events, are wanted."""
    if not (config.trace_only and with_stack):
        return config
    warnings.warn("profile: with_stack=True needs the events that trace_only=True leaves out; trace_only is ignored",
                  stacklevel=3)
    config = copy.copy(config)
    config.trace_only = False
    return config



def kineto_available() -> bool:
    """Whether traces in Kineto's form are written here: they are."""
    return True
